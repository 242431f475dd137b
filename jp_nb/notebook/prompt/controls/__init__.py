"""Controls of questions, made of widgets, and the messages that they accept."""
