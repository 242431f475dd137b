"""The test kit: the only place in `tests/` that knows the internal classes of `jp_nb`.

A test states its inputs and its expected results as plain data: kinds by name, stored objects,
texts, numbers. The kit turns them into the values of the program, and back. A class of the program
can so be renamed or moved with a change in one module of the kit. `CONTRIBUTING.md` has the rules.

Values of the program, by kind
    `kinds.make`: make a value: `make("tool_definition", "look", "Look.", schema)`.
    `kinds.is_kind`, `kinds.select_kind`, `kinds.kind_of`: read the kinds of values.
    `records.new_event`, `records.parse_event`: an event of a record, from fields or as stored.
    `models.model_event`: an event that a model streams.
    `screens.display_event`: an event that a turn shows.
    `questions.answered`, `questions.not_answered`: the end of a prompt.
    `questions.decision_prompt`: the prompt of a permission, a menu, or another decision.

The record of a conversation
    `notebook_record.NotebookRecord`: the `jp` object of a notebook.
    `notebook_record.open_document`: the document of a `jp` object or of a notebook file.
    `record_view.RecordView`: what the program reads in a conversation.
    `recorded_settings.RecordedSettings`: the settings of a conversation, their owners, and reverts.
    `question_log_lines.QuestionLogLines`: lines of the question log, and their signatures.
    `jp_directories.JpDirectory`: a directory of JP, from and to a `jp` object.

Settings and files of the user
    `settings.setting`, `settings.value_at`: a layer with one setting, and the value of a setting.
    `settings.Settings`: layers, their merged and their whole form, and changes of them.
    `folders.config_files`: the configuration files around a notebook.
    `sessions.directive`: the change of an option, such as `-c user.name=Ada`.
    `answers.PreparedAnswers`: an answers file.
    `cassettes.CassetteFile`: a cassette, its exchanges, and normalized requests.

Models and providers
    `providers.new_provider`: a provider, or a named server.
    `providers.prepare_request`: the body of a request, and its parts.
    `providers.substitute`: replace a part of the program, such as a bound, until the test ends.
    `streams.StreamReader`: a streamed response, from its bytes to events and entries.
    `models.EventProvider`: a provider that streams the events of a test.
    `models.record_response`: add a response to the context of its request.

Tools and MCP servers
    `tools.new_tool`: a tool from a function, from settings, or by its name.
    `tools.configured`, `tools.offer_now`: a configuration with tools, and those that it offers.
    `tool_sources.discovered_source`: a source that discovers tools, without a process.
    `tool_servers.ToolServer`: the server of `jp-nb mcp`.
    `servers.McpServer`: an MCP server: where it is listed, its start, and its answers.
    `values.describe_value`: the description of a Python value for the model.

Turns and sessions
    `turn_bench.TurnBench`: a turn loop with real tools, a real record, and scripted events.
    `turn_bench.new_question_model`: the model that answers questions of tools.
    `turn_screen.TurnScreen`: the outputs of a cell that shows a turn.
    `sessions.new_session`, `sessions.run_jp`: a session without a kernel, and its `%jp` lines.
    `sessions.current_session`: let `jp.query` use a session.
    `sessions.find_request`: the request that `%jp request` describes.
    `ipython_shell.IPythonShell`: cells and completions in IPython without a kernel.

Users who answer
    `forms.FormUser`: a user of an open form.
    `forms.ControlUser`: the control of one question.
    `consoles.ConsoleUser`: a user who types lines.
    `version_kind.VersionAnswer`: one more kind of question.

Kernels and pages in this process
    `pages.PagesInProcess`: a kernel with scripted pages, and its record.
    `deliveries.RecordDelivery`, `deliveries.KnownPages`: the delivery of a record, known pages.
    `kernel_outputs.BusyKernel`: a kernel that runs a cell, and its outputs.
    `front_ends.find_notebook`: the notebook of a kernel, as `%load_ext` finds it.

Headless runs and batches
    `headless_runs.HeadlessRun`: a run whose record the runner stores in a widget.
    `runs.RunReport`: the report of a run, from its events to its texts.
    `batches.BatchBench`: `jp-nb run` with many runs, without processes.
    `batch_folders.BatchFolder`: the folder of a batch: log, decisions, answers, reports.

Texts for the user
    `renderings.render`: tables, prompts, calls, logs, requests, and differences.
    `texts.write_text`: a text of a model, a tool, or a file, as the user reads it.

`page_in_cell.py` and `prompt_in_cell.py` are no part of this list: they are the first cells of
notebooks in real kernels, and tests name their functions only in the code of cells.
"""
