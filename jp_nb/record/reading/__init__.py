"""Read models of recorded turns and questions."""
