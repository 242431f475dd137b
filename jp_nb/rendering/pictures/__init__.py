"""Pictures of reports as SVG: the timeline of a turn, and tokens by request."""
