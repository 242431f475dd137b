"""What a tool is: outcomes, questions, and where tools come from."""
