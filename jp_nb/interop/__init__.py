"""JP's conversation directories, read and written byte for byte."""
