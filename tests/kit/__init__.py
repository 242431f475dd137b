"""The test kit: the only place in `tests/` that knows the internal classes of `jp_nb`.

A test states its inputs and its expected results as plain data: kinds by name, stored objects,
texts, numbers. The kit turns them into the values of the program, and back. A class of the program
can so be renamed or moved with a change in one module of the kit. `CONTRIBUTING.md` has the rules.
"""
