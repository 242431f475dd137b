"""Conversation directories of JP, read and written byte for byte.

JP (https://github.com/dcdpr/jp) is a command-line assistant. It keeps each conversation in a
directory: its entries, and its configuration, which entries change. `jp_nb` imports and exports
such directories (`docs/record.md`).
"""
