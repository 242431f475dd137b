"""Models of background requests: they answer questions of tools, or write summaries.

Such a request is not part of the conversation. It uses the model of the conversation, or another
one that the settings name (`background_assistants.py`). A `ChatModel` is a model with its provider,
system prompt, and parameters.

Source: `docs/configuration.md`, `docs/turns.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from jp_nb.agent.compacting.summarizer import SUMMARY_INSTRUCTIONS, Summarizer
from jp_nb.agent.effective_model import Resolved
from jp_nb.agent.inquiries.llm_inquiry import LlmInquiryBackend
from jp_nb.agent.model_requests.chat_model import ChatModel, make_model_parameters
from jp_nb.agent.offered_tools.tool_set import ToolSet
from jp_nb.agent.provider import Attachment, Provider
from jp_nb.config.aliases import resolve_model
from jp_nb.config.tree.app import AppConfig
from jp_nb.config.tree.assistant_settings import Assistant, QuestionAssistant
from jp_nb.config.tree.compaction_settings import CompactionRule, SummaryConfig
from jp_nb.config.tree.model_id import ModelId
from jp_nb.config.tree.providers_table import Llm
from jp_nb.config.tree.system_texts import list_system_texts
from jp_nb.errors import ConfigError
from jp_nb.session.conversation import ActiveConversation
from jp_nb.session.model_access.provider_pool import ProviderPool
from jp_nb.session.resolution.background_assistants import (
    build_inquiry_assistant,
    build_question_assistant,
    build_summary_assistant,
)

INQUIRY_MODEL_PATH: Final = "conversation.inquiry.assistant.model"
QUESTION_PURPOSE: Final = "answers questions"


class ProviderModel(NamedTuple):
    """A model, and its provider, which is open."""

    model: ModelId
    provider: Provider


class BackgroundModels:
    """Makes the models of background requests.

    A model that cannot be used is a `ConfigError` with the path of its setting.

    Args:
        before_sending: Called before each request of such a model, with the provider and its name.
    """

    def __init__(
        self,
        active: ActiveConversation,
        providers: ProviderPool,
        before_sending: Callable[[Provider, str], None],
    ) -> None:
        self._active = active
        self._providers = providers
        self._before_sending = before_sending

    def make_inquiry(
        self,
        config: AppConfig,
        tools: ToolSet,
        own: ProviderModel,
        attachments: tuple[Attachment, ...],
        conversation_id: str,
        *,
        project: tuple[str, ...] = (),
    ) -> LlmInquiryBackend:
        """Return the backend for questions of `tools`. `own` is the conversation's model.

        `project` are the texts of the project in the system prompt of the conversation. Only the
        default model gets them: a question with its own assistant has its own instructions.
        """
        assistant = build_inquiry_assistant(config)
        model = own
        if assistant.model.id != config.assistant.model.id:
            llm = config.providers.llm
            model = self._open_model(assistant, llm, INQUIRY_MODEL_PATH, QUESTION_PURPOSE)

        default = self._make_chat_model(assistant, model)
        return LlmInquiryBackend(
            default=replace(default, system=(*default.system, *project)),
            overrides=self._make_overrides(config, tools, assistant, model),
            tools=tuple(tool.definition for tool in tools.tools.values()),
            attachments=attachments,
            conversation_id=conversation_id,
        )

    def _make_overrides(
        self,
        config: AppConfig,
        tools: ToolSet,
        assistant: Assistant,
        model: ProviderModel,
    ) -> dict[tuple[str, str], ChatModel]:
        """Return the models of questions that name an assistant of their own (`target`).

        The keys are the names of the tool and the question. Such an assistant has the settings of
        `assistant`, except those that it changes, and `model` unless it names another one.
        """
        overrides: dict[tuple[str, str], ChatModel] = {}
        for tool in tools.tools.values():
            for question_id, choice in tool.questions.items():
                if not isinstance(choice.target, QuestionAssistant):
                    continue

                question_assistant = build_question_assistant(assistant, choice.target)
                question_model = model
                if question_assistant.model.id != assistant.model.id:
                    path = f"conversation.tools.{tool.name}.questions.{question_id}.target"
                    llm = config.providers.llm
                    question_model = self._open_model(
                        question_assistant, llm, path, QUESTION_PURPOSE
                    )
                chat_model = self._make_chat_model(question_assistant, question_model)
                overrides[tool.name, question_id] = chat_model

        return overrides

    def make_summarizer(self, resolved: Resolved, rule: CompactionRule) -> Summarizer:
        """Return the summarizer for `rule`, in the active conversation."""
        config = resolved.basis.config
        summary = rule.summary or SummaryConfig()
        assistant = build_summary_assistant(config, summary)
        path = "conversation.compaction.rules"
        # For the model of the conversation, the pool returns the provider that is open.
        model = self._open_model(assistant, config.providers.llm, path, "summarizes turns")
        chat_model = self._make_chat_model(assistant, model)

        return Summarizer(
            model=replace(chat_model, system=(summary.instructions or SUMMARY_INSTRUCTIONS,)),
            purpose=summary.context or "",
            tools=tuple(tool.definition for tool in resolved.tools.tools.values()),
            conversation_id=self._active.document.conversation.id,
        )

    def _open_model(self, assistant: Assistant, llm: Llm, path: str, purpose: str) -> ProviderModel:
        """Return the model of `assistant`. An error names its `purpose`, and its setting `path`."""
        try:
            model = resolve_model(assistant.model.id, llm.aliases, path=path)
            return ProviderModel(model, self._providers.open(model.provider, llm))
        except ConfigError as exc:
            # Without the path, which the new error has too.
            text = exc.problems[0].message if exc.path == path else str(exc)
            raise ConfigError(
                f"the model that {purpose} cannot be used: {text}", path=path
            ) from exc

    def _make_chat_model(self, assistant: Assistant, opened: ProviderModel) -> ChatModel:
        cassette = self._providers.cassette
        return ChatModel(
            provider=opened.provider,
            model=opened.model.name,
            provider_name=opened.model.provider,
            system=list_system_texts(assistant),
            parameters=make_model_parameters(assistant.model.parameters),
            request=assistant.request,
            is_replayed=cassette is not None and cassette.is_offline,
            before_sending=self._before_sending,
        )
