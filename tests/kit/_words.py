"""The words of tests for the values of the program: one table for each subject.

A word is the name of a class, in the words of a reader: `"tool_definition"`, `"answered"`. The
stored kinds of a record and of its questions are the program's own, stable words.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from jp_nb.agent import display, model_info, prepared_answers, provider, provider_events
from jp_nb.agent.inquiries import inquiry
from jp_nb.agent.model_requests import exchange_recorder, recorded_exchange
from jp_nb.agent.prompting import prompt_ends, prompts
from jp_nb.config.tree.app import PromptConfig
from jp_nb.record.entries.entry_kinds import KNOWN
from jp_nb.record.entries.outcomes import QuestionOutcome
from jp_nb.record.entries.proposed_by import ProposedBy
from jp_nb.record.entries.token_usage import ModelUsage
from jp_nb.record.reading import turn_view
from jp_nb.record.reading.question_history import LoggedAnswer, QuestionHistory
from jp_nb.record.request_context.context import ContextItem, HeadPosition, RequestContext
from jp_nb.session import host as session_host
from jp_nb.toolkit import notebook_access
from jp_nb.toolkit.cell_thread import CallInterrupted
from jp_nb.toolkit.command_tools.processes import ProcessRun
from jp_nb.toolkit.editing import edit_review
from jp_nb.toolkit.editing.source_diff import SourceDiff
from jp_nb.toolkit.editing.source_ranges import SourceChange
from jp_nb.toolkit.notebook_access import CellOutput
from jp_nb.toolkit.outcome import NeedsInput, NeedsReview, Success, ToolFailure
from jp_nb.toolkit.question import QUESTION_KINDS
from jp_nb.toolkit.tool_context import DeltaRejection
from tests.kit._edited_cells import EditedCells

RECORD_EVENTS: Mapping[str, type[Any]] = KNOWN

RECORD_VALUES: Mapping[str, type[Any]] = {
    "turn_text": turn_view.TurnText,
    "structured_data": turn_view.StructuredData,
    "rejected_answer": turn_view.RejectedAnswer,
    "tool_call": turn_view.ToolCall,
    "inquiry": turn_view.Inquiry,
    "config_change": turn_view.ConfigChange,
    "proposal": ProposedBy,
    "question_outcome": QuestionOutcome,
    "model_usage": ModelUsage,
    "logged_answer": LoggedAnswer,
}

ANSWER_TYPES: Mapping[str, type[Any]] = {
    f"{kind}_answer": answer_type for kind, answer_type in QUESTION_KINDS.items()
}

OUTCOMES: Mapping[str, type[Any]] = {
    "success": Success,
    "failure": ToolFailure,
    "needs_input": NeedsInput,
}

MODEL_EVENTS: Mapping[str, type[Any]] = {
    "text": provider_events.TextPart,
    "call_start": provider_events.ToolCallStart,
    "call_arguments": provider_events.ToolCallArguments,
    "flush": provider_events.Flush,
    "keep_alive": provider_events.KeepAlive,
    "usage": provider_events.Usage,
    "finished": provider_events.Finished,
    "retry": provider_events.Retry,
    "input_change": provider_events.InputChange,
    "prefix_loss": provider_events.PrefixLoss,
    "prompt_cut": provider_events.PromptCut,
    "omitted_files": provider_events.OmittedFiles,
}

REQUEST_VALUES: Mapping[str, type[Any]] = {
    "model_request": provider.ModelRequest,
    "parameters": provider.ModelParameters,
    "tool_definition": provider.ToolDefinition,
    "attachment": provider.Attachment,
    "model_info": model_info.ModelInfo,
    "model_list": model_info.ModelList,
    "sent_request": provider.SentRequest,
    "key_reference": provider.KeyReference,
    "context_item": ContextItem,
    "request_context": RequestContext,
    "head_position": HeadPosition,
}

DISPLAY_EVENTS: Mapping[str, type[Any]] = {
    "show_text": display.ShowText,
    "discard_text": display.DiscardText,
    "end_of_text": display.EndOfText,
    "tool_begins": display.ToolBegins,
    "tool_ends": display.ToolEnds,
    "question_ends": display.QuestionEnds,
    "change_ends": display.ChangeEnds,
    "notice": display.Notice,
    "show_request": display.ShowRequest,
    "user_message": display.UserMessage,
    "waits": display.Waits,
    "tokens_so_far": display.TokensSoFar,
    "function_begins": display.FunctionBegins,
    "function_ends": display.FunctionEnds,
    "code_asks": display.CodeAsks,
    "interrupt_received": display.InterruptReceived,
}

PROMPTS: Mapping[str, type[Any]] = {
    "question_prompt": prompts.QuestionPrompt,
    "decision_prompt": prompts.ActionPrompt,
    "form_prompt": prompts.FormPrompt,
    "action": prompts.Action,
    "prompt_detail": prompts.PromptDetail,
    "prompt_item": prompts.PromptItem,
    "source_diff": SourceDiff,
    "source_change": SourceChange,
    "proposed_change": prompts.ProposedChange,
    "model_inquiry": inquiry.ModelInquiry,
    "prompt_settings": PromptConfig,
}

PROMPT_ENDS: Mapping[str, type[Any]] = {
    "answered": prompt_ends.Answered,
    "not_answered": prompt_ends.NotAnswered,
    "form_end": prompt_ends.FormEnd,
    "unavailable": prompt_ends.Unavailable,
    "given_answer": prepared_answers.GivenAnswer,
    "declined_by_file": prepared_answers.DeclinedByFile,
    "invalid_answer": prepared_answers.InvalidAnswer,
    "inquiry_error": inquiry.InquiryError,
}

TOOL_VALUES: Mapping[str, type[Any]] = {
    "cell_output": CellOutput,
    "process_run": ProcessRun,
    "delta_rejection": DeltaRejection,
    "call_interrupted": CallInterrupted,
    "question_history": QuestionHistory,
}

HOST_VALUES: Mapping[str, type[Any]] = {
    "cell_run": session_host.CellRun,
    "last_error": session_host.LastError,
    "opened_conversation": session_host.OpenedConversation,
    "code_run": notebook_access.CodeRun,
    "notebook_cell": notebook_access.NotebookCell,
    "notebook_cells": notebook_access.NotebookCells,
    "edited_cells": EditedCells,
    "edit_decision": edit_review.EditDecision,
    "needs_review": NeedsReview,
}

EXCHANGE_VALUES: Mapping[str, type[Any]] = {
    "exchange": recorded_exchange.Exchange,
    "failed_response": recorded_exchange.FailedResponse,
    "incomplete_response": recorded_exchange.IncompleteResponse,
    "exchange_recorder": exchange_recorder.ExchangeRecorder,
}

EVENTS: Mapping[str, type[Any]] = {**RECORD_EVENTS, **MODEL_EVENTS, **DISPLAY_EVENTS}

VALUES: Mapping[str, type[Any]] = {
    **RECORD_VALUES,
    **ANSWER_TYPES,
    **OUTCOMES,
    **REQUEST_VALUES,
    **PROMPTS,
    **PROMPT_ENDS,
    **TOOL_VALUES,
    **HOST_VALUES,
    **EXCHANGE_VALUES,
}

_SERVERS = "jp_nb.mcp.exchange"
_LAUNCHES = "jp_nb.mcp.transports.launches"
_SERVER_ERRORS = "jp_nb.mcp.errors"
_REPORTS = "jp_nb.headless.run_reports.run_report"

RARE_VALUES: Mapping[str, tuple[str, str]] = {
    "no_valid_answer": ("jp_nb.notebook.prompt.controls.form_control", "NoValidAnswer"),
    "no_key_error": ("jp_nb.record.documents.record_trust", "NoKeyError"),
    "page_document": ("jp_nb.notebook.page_document", "PageDocument"),
    "cell_change": ("jp_nb.toolkit.editing.document_change", "CellChange"),
    "traced_request": ("jp_nb.rendering.reports.request_text", "TracedRequest"),
    "bench_run": ("jp_nb.agent.call_steps.bench_run", "BenchRun"),
    "batch_context": ("jp_nb.agent.turn_state", "BatchContext"),
    "stdio_launch": (_LAUNCHES, "StdioLaunch"),
    "http_launch": (_LAUNCHES, "HttpLaunch"),
    "connection_limits": (_SERVERS, "ConnectionLimits"),
    "server_tool": (_SERVERS, "ServerTool"),
    "server_question": (_SERVERS, "ServerQuestion"),
    "server_answer": (_SERVERS, "ServerAnswer"),
    "server_result": (_SERVERS, "ServerResult"),
    "input_required": (_SERVERS, "InputRequired"),
    "call_request": (_SERVERS, "CallRequest"),
    "call_rounds": ("jp_nb.mcp.connections.call_rounds", "CallRounds"),
    "server_progress": (_SERVERS, "Progress"),
    "server_error": (_SERVER_ERRORS, "ServerError"),
    "server_not_started": (_SERVER_ERRORS, "ServerNotStarted"),
    "sign_in_error": (_SERVER_ERRORS, "SignInError"),
    "run_result": ("jp_nb.headless.runner", "RunResult"),
    "run_failure": ("jp_nb.headless.kernels.cell_ends", "CellFailure"),
    "run_events": ("jp_nb.headless.run_events_reading", "RunEvents"),
    "reported_decision": ("jp_nb.headless.reported_decisions", "ReportedDecision"),
    "run_report": (_REPORTS, "RunReport"),
    "reported_cell": (_REPORTS, "ReportedCell"),
    "reported_turn": (_REPORTS, "ReportedTurn"),
    "reported_question": (_REPORTS, "ReportedQuestion"),
}
"""Module and class. They are imported for the tests that use them, since they load libraries."""


def find(words: Mapping[str, type[Any]], word: str) -> type[Any]:
    """Return the class for which `word` stands. An unknown word fails the test."""
    assert word in words, f"the kit has no {word!r}: use one of {', '.join(words)}"
    return words[word]


def find_value(word: str) -> type[Any]:
    """Return the class of a value other than an event."""
    assert word not in EVENTS or word in VALUES, f"{word!r} is an event"
    if word in RARE_VALUES:
        module, name = RARE_VALUES[word]
        found: type[Any] = getattr(import_module(module), name)
        return found
    return find(VALUES, word)
