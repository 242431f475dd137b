"""The configuration tree: every field, its type, its default.

Extra keys are errors everywhere but in `model.parameters`; maps are `dict[str, …]`.

Source: `spec/config.md` section 2, `design/interface.md` section 10.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from jp_nb.config.defaults import DEFAULT_MODEL

PROVIDER_NAMES = (
    "anthropic",
    "cerebras",
    "deepseek",
    "llamacpp",
    "ollama",
    "openai",
    "openrouter",
    "scripted",
)
STAR = "*"
"""The key of the defaults for all tools."""

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MODEL_NAME = re.compile(r"[A-Za-z0-9_.:/~-]+")


class Node(BaseModel):
    """A group of fields. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


# --- models ----------------------------------------------------------------------------------


class ModelId(Node):
    """A model: the provider that serves it, and that provider's name for it."""

    provider: str
    name: str

    @model_validator(mode="after")
    def _known(self) -> ModelId:
        problem = model_problem(self.provider, self.name)
        if problem:
            raise ValueError(problem)
        return self

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"


def model_problem(provider: str, name: str) -> str | None:
    """What is wrong with `provider/name`; None if nothing is."""
    if provider not in PROVIDER_NAMES:
        return f"unknown provider {provider!r}, expected one of {', '.join(PROVIDER_NAMES)}"
    if not MODEL_NAME.fullmatch(name):
        return f"model name {name!r} may hold letters, digits and any of _ . : / ~ - alone"
    return None


def _model_id(value: Any) -> Any:
    """`provider/name` is a model, a word without `/` an alias, a table a model."""
    if isinstance(value, str):
        provider, slash, name = (part.strip() for part in value.partition("/"))
        if not slash and not provider:
            raise ValueError("expected a model id `provider/name` or an alias, found nothing")
        if not slash:
            return provider
        value = {"provider": provider, "name": name}
    if isinstance(value, dict):
        if not all(isinstance(value.get(key), str) for key in ("provider", "name")):
            raise ValueError("expected a table with the texts `provider` and `name`")
        problem = model_problem(value["provider"], value["name"])
        if problem or len(value) > 2:
            raise ValueError(problem or "expected `provider` and `name` alone")
        return ModelId(**value)
    if not isinstance(value, ModelId):
        raise ValueError("expected a model id `provider/name`, an alias, or a table")
    return value


ModelIdOrAlias = Annotated[ModelId | str, BeforeValidator(_model_id)]


EFFORTS = ("none", "xlow", "low", "medium", "auto", "high", "xhigh", "max")


class Reasoning(Node):
    """How much a model thinks, and whether that is shown."""

    effort: Literal["none", "xlow", "low", "medium", "auto", "high", "xhigh", "max"] | int = (
        "medium"
    )
    exclude: bool = False


def _reasoning(value: Any) -> Any:
    """A bare effort, as a word or a number of tokens, means a table; `auto` is the mode."""
    if value is None or isinstance(value, Reasoning) or value in ("off", "auto"):
        return value
    table = value if isinstance(value, dict) else {"effort": value}
    try:
        return Reasoning.model_validate(table)
    except ValidationError as exc:
        accepted = f"off, auto, {', '.join(EFFORTS)}, a number of tokens, or {{effort, exclude}}"
        raise ValueError(f"expected one of {accepted}, found {value!r}") from exc


class ModelParameters(BaseModel):
    """Sampling settings; keys we do not know go to the provider."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    reasoning: Annotated[Literal["off", "auto"] | Reasoning | None, BeforeValidator(_reasoning)] = (
        None
    )
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_words: list[str] = []


def _welcome() -> ModelId:
    provider, _, name = DEFAULT_MODEL.partition("/")
    return ModelId(provider=provider, name=name)


class Model(Node):
    """Which model answers, and how."""

    id: ModelIdOrAlias = Field(default_factory=_welcome)
    parameters: ModelParameters = Field(default_factory=ModelParameters)


class Request(Node):
    """Retries and limits of one model request."""

    max_retries: Annotated[int, Field(ge=0)] = 5
    base_backoff_ms: Annotated[int, Field(ge=0)] = 1000
    max_backoff_secs: Annotated[int, Field(ge=0)] = 60
    stream_idle_timeout_secs: Annotated[int, Field(ge=0)] = 60
    max_response_bytes: Annotated[int, Field(ge=0)] = 1_048_576

    @field_validator("stream_idle_timeout_secs")
    @classmethod
    def _not_too_short(cls, value: int) -> int:
        if 0 < value < 10:
            raise ValueError("expected 0 (off) or at least 10 seconds")
        return value


class Section(Node):
    """A part of the system prompt."""

    content: str
    tag: str | None = None
    title: str | None = None
    position: int = 0

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"content": value} if isinstance(value, str) else value

    def render(self) -> str:
        """The text a model is sent: in its tag, under its title, or bare."""
        content = self.content.strip()
        if self.tag is None:
            return f"# {self.title}\n\n{content}" if self.title else content
        if any(sign in content for sign in "<>&"):
            content = "<![CDATA[" + content.replace("]]>", "]]]]><![CDATA[>") + "]]>"
        title = ""
        if self.title:
            from xml.sax.saxutils import quoteattr

            title = f" title={quoteattr(self.title)}"
        return f"<{self.tag}{title}>\n{content}\n</{self.tag}>"


class Contrast(Node):
    """A good and a bad example."""

    good: str
    bad: str
    reason: str | None = None


class Instruction(Node):
    """A titled list of instructions in the system prompt."""

    title: str | None = None
    description: str | None = None
    position: int = 0
    items: list[str] = []
    examples: list[str | Contrast] = []

    def section(self) -> Section:
        """The same as a section with the tag `instruction`."""
        parts = [self.description] if self.description else []
        parts.append("\n".join(f"- {item}" for item in self.items))
        if self.examples:
            parts.append("**Examples**")
        for example in self.examples:
            if isinstance(example, str):
                parts.append(example)
            else:
                lines = [f"Good: {example.good}", f"Bad: {example.bad}"]
                parts.append(
                    "\n".join([*lines, *([f"Reason: {example.reason}"] * bool(example.reason))])
                )
        return Section(
            content="\n\n".join(p for p in parts if p),
            tag="instruction",
            title=self.title,
            position=self.position,
        )


def _how_to_respond() -> list[Instruction]:
    items = [
        "Be concise.",
        "Use simple sentences.",
        "Explain no more than was asked for.",
        "No flattery and no marketing tone.",
        "No vague claims: say what you know and how you know it.",
    ]
    return [Instruction(title="How to respond to the user", items=items)]


class Assistant(Node):
    """Who answers."""

    name: str | None = None
    system_prompt: str = "You are a helpful assistant."
    system_prompt_sections: list[Section] = []
    instructions: list[Instruction] = Field(default_factory=_how_to_respond)
    tool_choice: str = "auto"
    model: Model = Field(default_factory=Model)
    request: Request = Field(default_factory=Request)

    def system(self) -> tuple[str, ...]:
        """The system texts in the order they are sent."""
        sections = [*self.system_prompt_sections, *(i.section() for i in self.instructions)]
        texts = [self.system_prompt, *(s.render() for s in sorted(sections, key=_position))]
        return tuple(text for text in texts if text.strip())


def _position(section: Section) -> int:
    return section.position


# --- tools -----------------------------------------------------------------------------------

AllowToggle = Literal["any", "never", "if_named", "if_named_or_group"]
_ENABLE_WORDS: dict[str, dict[str, JsonValue]] = {
    "true": {"state": True, "allow_toggle": "any"},
    "on": {"state": True, "allow_toggle": "any"},
    "false": {"state": False, "allow_toggle": "any"},
    "off": {"state": False, "allow_toggle": "any"},
    "always": {"state": True, "allow_toggle": "never"},
    "explicit": {"state": False, "allow_toggle": "if_named"},
}


class Enable(Node):
    """Whether a tool is offered, and which directives may change that. Unset halves inherit."""

    state: bool | None = None
    allow_toggle: AllowToggle | None = None

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        if isinstance(value, (bool, str)):
            word = str(value).lower() if isinstance(value, bool) else value
            if word not in _ENABLE_WORDS:
                raise ValueError(
                    f'invalid enable value: \'{value}\', expected a boolean, one of "on", "off", '
                    '"explicit", "always", or a { state, allow_toggle } table'
                )
            return _ENABLE_WORDS[word]
        return value

    @model_serializer(mode="plain")
    def _set_halves(self) -> dict[str, JsonValue]:
        halves: dict[str, JsonValue] = {"state": self.state, "allow_toggle": self.allow_toggle}
        return {key: value for key, value in halves.items() if value is not None}


class QuestionConfig(Node):
    """What a user decides about one question of a tool."""

    target: Literal["user", "assistant"] | dict[str, JsonValue] = "user"
    answer: JsonValue = None
    prompt_label: str | None = None

    @property
    def asks_assistant(self) -> bool:
        """Whether a model is to answer."""
        return self.target != "user"


class ToolStyle(Node):
    """How a tool's calls are shown."""

    hidden: bool | None = None
    parameters: Literal["json", "function_call", "off"] | None = None


RunMode = Literal["ask", "unattended", "skip"]
ResultMode = Literal["unattended", "ask", "skip"]
CANCELLATION = (
    "The user cancelled this tool call on purpose. Find out why from the conversation, or ask, "
    "before you call it again."
)


class Tool(Node):
    """One tool, or with the key `*` the defaults of all tools. Unset fields fall back to those."""

    source: str | None = None
    enable: Enable | None = None
    summary: str | None = None
    description: str | None = None
    examples: str | None = None
    parameters: dict[str, JsonValue] = {}
    run: RunMode | None = None
    result: ResultMode | None = None
    cancellation_response: str | None = None
    style: ToolStyle = Field(default_factory=ToolStyle)
    questions: dict[str, QuestionConfig] = {}
    options: dict[str, JsonValue] = {}

    @field_validator("source")
    @classmethod
    def _known_source(cls, value: str | None) -> str | None:
        kind, _, rest = (value or "").partition(".")
        if value is None or kind in ("builtin", "local", "python"):
            return value
        if kind == "mcp":
            if not rest.partition(".")[0]:
                raise ValueError("MCP tool source must name a server")
            return value
        raise ValueError(
            f"Unknown tool source: {value}, must be one of: builtin, local, mcp, python"
        )


class Conversation(Node):
    """What a conversation may use."""

    tools: dict[str, Tool] = {}

    @field_validator("tools")
    @classmethod
    def _star_is_no_tool(cls, tools: dict[str, Tool]) -> dict[str, Tool]:
        star = tools.get(STAR)
        if star is not None and star.source is not None:
            raise ValueError("'*' holds defaults and has no source")
        return tools


# --- providers -------------------------------------------------------------------------------


class ProviderConfig(Node):
    """Where a provider is reached and which environment variable holds its key."""

    api_key_env: str | None = None
    base_url: str | None = None

    @field_validator("base_url")
    @classmethod
    def _no_credentials(cls, value: str | None) -> str | None:
        if value is not None and "@" in urlsplit(value).netloc:
            raise ValueError(
                "an address holds no user and no password: put a key into an environment variable "
                "and name that in api_key_env"
            )
        return value

    @field_validator("api_key_env")
    @classmethod
    def _a_name(cls, value: str | None) -> str | None:
        if value is not None and not VARIABLE.fullmatch(value):
            raise ValueError("expected the name of an environment variable, not a key")
        return value


class Anthropic(ProviderConfig):
    """Anthropic's Messages API."""

    api_key_env: str | None = "ANTHROPIC_API_KEY"
    base_url: str | None = "https://api.anthropic.com"
    beta_headers: list[str] = []


class OpenAi(ProviderConfig):
    """OpenAI, or any server that speaks its protocol."""

    api_key_env: str | None = "OPENAI_API_KEY"
    base_url: str | None = "https://api.openai.com"
    base_url_env: str | None = "OPENAI_BASE_URL"
    dialect: Literal["chat"] = "chat"


class OpenRouter(ProviderConfig):
    """OpenRouter."""

    api_key_env: str | None = "OPENROUTER_API_KEY"
    base_url: str | None = "https://openrouter.ai"
    app_name: str = "jp_nb"
    app_referrer: str | None = None


class Llm(Node):
    """Providers by name, and short names for models."""

    aliases: dict[str, ModelIdOrAlias] = {}
    anthropic: Anthropic = Field(default_factory=Anthropic)
    cerebras: ProviderConfig = Field(
        default_factory=lambda: ProviderConfig(
            api_key_env="CEREBRAS_API_KEY", base_url="https://api.cerebras.ai"
        )
    )
    deepseek: ProviderConfig = Field(
        default_factory=lambda: ProviderConfig(
            api_key_env="DEEPSEEK_API_KEY", base_url="https://api.deepseek.com"
        )
    )
    llamacpp: ProviderConfig = Field(
        default_factory=lambda: ProviderConfig(base_url="http://127.0.0.1:8080")
    )
    ollama: ProviderConfig = Field(
        default_factory=lambda: ProviderConfig(base_url="http://localhost:11434")
    )
    openai: OpenAi = Field(default_factory=OpenAi)
    openrouter: OpenRouter = Field(default_factory=OpenRouter)


class Providers(Node):
    """Model providers."""

    llm: Llm = Field(default_factory=Llm)


# --- the notebook ----------------------------------------------------------------------------


class ReasoningStyle(Node):
    """Whether reasoning is shown (folded) or not."""

    display: Literal["full", "hidden"] = "full"


class ToolCallStyle(Node):
    """Whether tool calls are shown."""

    show: bool = True


class Style(Node):
    """What a cell shows."""

    reasoning: ReasoningStyle = Field(default_factory=ReasoningStyle)
    tool_call: ToolCallStyle = Field(default_factory=ToolCallStyle)
    update_interval_ms: Annotated[int, Field(ge=0)] = 100


def _on_off(value: Any) -> Any:
    """TOML writers put a boolean where `on` and `off` are meant."""
    return ("off", "on")[value] if isinstance(value, bool) else value


class Prompt(Node):
    """How a person is asked."""

    channel: Literal["auto", "widget", "stdin", "never"] = "auto"
    rendered_timeout_s: Annotated[float, Field(gt=0)] = 3.0
    timeout_s: Annotated[float, Field(ge=0)] = 0.0
    notify: Annotated[Literal["off", "on"], BeforeValidator(_on_off)] = "on"


class Record(Node):
    """How the record is kept."""

    headless: Literal["new", "continue"] = "new"


class Interpolation(Node):
    """Bounds of `{{value}}`."""

    max_chars: Annotated[int, Field(gt=0)] = 20_000


class User(Node):
    """Who asks; never sent to a provider."""

    name: str | None = None


class AppConfig(Node):
    """The whole configuration."""

    user: User = Field(default_factory=User)
    assistant: Assistant = Field(default_factory=Assistant)
    conversation: Conversation = Field(default_factory=Conversation)
    style: Style = Field(default_factory=Style)
    providers: Providers = Field(default_factory=Providers)
    prompt: Prompt = Field(default_factory=Prompt)
    record: Record = Field(default_factory=Record)
    interpolation: Interpolation = Field(default_factory=Interpolation)
