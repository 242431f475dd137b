"""Programs for contributors, which no test run needs."""
