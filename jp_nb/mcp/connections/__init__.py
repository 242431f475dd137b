"""Sessions with servers, and the calls that wait for them."""
