"""Run the tool of a call once, and turn its result or its exception into an outcome.

A call may run several times (`call_runner.py`). Secrets that the user entered are hidden in each
outcome.

Source: `docs/turns.md`, `docs/architecture.md` (two threads).
"""

from __future__ import annotations

import asyncio
from functools import partial
from time import monotonic

from jp_nb.agent.call_steps.call_contexts import CallContexts
from jp_nb.agent.call_steps.call_results import CallResults
from jp_nb.agent.calls.call import Call, CallEnded
from jp_nb.agent.calls.call_progress import ProgressWriter
from jp_nb.agent.calls.call_response import CANCELED_ITSELF_TEXT, format_stopped_response
from jp_nb.agent.calls.cell_functions import CellCall, CellFunctions
from jp_nb.agent.display import Waits
from jp_nb.agent.offered_tools.offered_tool import OfferedTool
from jp_nb.agent.turn_plan import CHANGE_REFUSED_TEXT
from jp_nb.agent.turn_state import TurnContext
from jp_nb.errors import ToolError
from jp_nb.json_values import copy_json
from jp_nb.toolkit.cancellation import raise_if_cancelled
from jp_nb.toolkit.cell_thread import CallInterrupted, ControlFlowError
from jp_nb.toolkit.current_run import CURRENT_RUN, ToolRun
from jp_nb.toolkit.function_tools.tool_errors import (
    find_tool_traceback,
    format_error_text,
    format_traceback,
)
from jp_nb.toolkit.outcome import NeedsReview, Outcome, Success, ToolFailure


class ToolRuns:
    """Runs the tools of a batch's calls.

    Args:
        refuses_changes: True if the user has to approve a plan before a run may change settings.
    """

    def __init__(
        self,
        turn: TurnContext,
        functions: CellFunctions,
        contexts: CallContexts,
        results: CallResults,
        progress: ProgressWriter,
        *,
        refuses_changes: bool,
    ) -> None:
        self._turn = turn
        self._functions = functions
        self._contexts = contexts
        self._results = results
        self._progress = progress
        self._refuses_changes = refuses_changes

    async def run_once(self, call: Call, tool: OfferedTool) -> Outcome | NeedsReview:
        """Run `tool` once, and return its outcome without secrets.

        Raises:
            CallEnded: An interrupt of the kernel ended the tool's function.
        """
        raise_if_cancelled()
        self._turn.display(Waits(call.key, call.title))
        await asyncio.sleep(0)  # the other calls of the batch begin first

        run = ToolRun(call_id=call.key)
        cell = self._begin_run(call, tool, run)
        outcome, error = await self._run_tool(call, tool, run, cell)

        # The tool ignored its cancellation, so the batch abandoned this task.
        if not call.is_run_by_this_task():
            raise asyncio.CancelledError

        if error is not None and _was_interrupted(error):
            call.state.was_interrupted = True
            raise_if_cancelled()  # the batch may have canceled the call already
            verdict = await self._functions.wait_for_decision(cell)
            raise CallEnded(format_stopped_response(call, verdict), skipped=True)

        if error is not None:
            self._report_error(call, error)
        if isinstance(outcome, NeedsReview):
            return outcome

        outcome = self._refuse_early_change(tool, outcome)
        return self._turn.secrets.hide_in_outcome(outcome)

    def _begin_run(self, call: Call, tool: OfferedTool, run: ToolRun) -> CellCall:
        """Note the start of a run in the journal, and return its access to the cell's thread."""
        cell = CellCall(self._functions, call)
        write_start = partial(self._progress.write, call, stage="started")

        if tool.executor.waits_for_cell:  # it starts when the functions before have ended
            # Both are called on the cell's thread.
            cell.on_start = write_start
            cell.on_result = partial(self._results.settle_function_result, call, tool, run)
        else:
            write_start()

        call.state.ran = True
        return cell

    async def _run_tool(
        self, call: Call, tool: OfferedTool, run: ToolRun, cell: CellCall
    ) -> tuple[Outcome | NeedsReview, BaseException | None]:
        """Run `tool` once; return the outcome, and the exception if the tool failed with one.

        A `ToolError` is no such exception: its message is the tool's own answer to the model.
        """
        context = self._contexts.make_for_run(call, tool)
        CURRENT_RUN.set(run)  # in the context of this task
        began = monotonic()

        try:
            arguments = copy_json(call.state.arguments)  # a run may change what it gets
            return await tool.executor.run(arguments, context, cell), None
        except asyncio.CancelledError:
            raise_if_cancelled()  # else this task continues: the tool awaited a canceled future
            return ToolFailure(CANCELED_ITSELF_TEXT), None
        except ToolError as exc:
            return ToolFailure(str(exc)), None
        except BaseException as exc:
            # SystemExit and KeyboardInterrupt out of a task would end the agent's loop.
            error = _unwrap_error(exc)
            return ToolFailure(format_error_text(error)), error
        finally:
            run.is_over = True
            seconds = monotonic() - began
            if tool.executor.waits_for_cell:
                seconds = cell.total_seconds  # without the time in the queue for the thread
            self._end_run(call, cell, seconds)

    def _end_run(self, call: Call, cell: CellCall, seconds: float) -> None:
        """Note the time of a run, and let the next function begin in the cell's thread."""
        call.state.seconds += seconds
        call.runs.append(self._turn.times.make_span(seconds))

        # The next function in the cell's thread waits until this run is *settled*: its result would
        # survive the end of the process. `settle_function_result` may have done that.
        has_settled = call.state.result.kept is not None
        if not has_settled:
            # Set later, when this task has kept the result: the next function may end the process.
            asyncio.get_running_loop().call_soon(cell.settled.set)

    def _refuse_early_change(self, tool: OfferedTool, outcome: Outcome) -> Outcome:
        """Return `outcome`; a failure if it changes settings before the plan is approved."""
        if self._refuses_changes and isinstance(outcome, Success) and outcome.proposes:
            return ToolFailure(CHANGE_REFUSED_TEXT.format(tool.name))
        return outcome

    def _report_error(self, call: Call, error: BaseException) -> None:
        """Keep the exception of a tool for the display, `jp.call`, and the user's debugger."""
        call.view.traceback = format_traceback(error)
        call.exception = error
        if self._turn.on_tool_error is not None:
            self._turn.on_tool_error(error.with_traceback(find_tool_traceback(error)))


def _was_interrupted(error: BaseException) -> bool:
    """Return True if an interrupt of the kernel ended the function of a tool."""
    return isinstance(error, CallInterrupted) and isinstance(error.__cause__, KeyboardInterrupt)


def _unwrap_error(exc: BaseException) -> BaseException:
    """Return the exception that the tool raised: the cause of an exception that replaced it.

    The cell's thread replaces exceptions that no task may raise, such as `SystemExit`.
    """
    if _was_interrupted(exc):
        return exc
    if isinstance(exc, CallInterrupted | ControlFlowError) and exc.__cause__ is not None:
        return exc.__cause__
    return exc
