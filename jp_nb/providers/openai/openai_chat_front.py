"""Chat Completions: the messages in front of a conversation, with system texts and attachments.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain

from jp_nb.agent.provider import Attachment, ModelRequest
from jp_nb.image_headers import PDF
from jp_nb.providers.openai.chat_profiles import Profile
from jp_nb.providers.openai.openai_chat_parts import make_image_part, make_pdf_part, make_text_part
from jp_nb.providers.request_parts.attachment_parts import (
    FormattedAttachments,
    encode_base64,
    format_attachment_name,
    split_attachments,
)
from jp_nb.providers.request_parts.documents_xml import format_documents_xml
from jp_nb.providers.request_parts.request_body import WireMessage, encode_json
from jp_nb.providers.schemas.answer_schemas import AnswerSchema, adapt_for_json_mode


def format_system_messages(
    request: ModelRequest, profile: Profile, *, documents: str = ""
) -> list[WireMessage]:
    """Return the system texts as one message, because many chat templates reject a second one.

    The texts of attachments (`documents`) follow the system texts. The schema of the answer is last
    if the server cannot enforce it. Without any text, there is no message.
    """
    texts = [text for text in (*request.system, documents) if text.strip()]
    if profile.answer is None and request.schema is not None:
        texts.append(describe_answer(adapt_for_json_mode(request.schema)))

    if not texts:
        return []

    # Models with one of these prefixes cache the beginning of a request up to the marked part.
    if request.model.startswith(profile.cached_by_mark):
        parts = [make_text_part(text) for text in texts]
        parts[-1]["cache_control"] = {"type": "ephemeral"}
        return [{"role": "system", "content": parts}]
    return [{"role": "system", "content": "\n\n".join(texts)}]


def describe_answer(answer: AnswerSchema) -> str:
    """Return the instruction that asks for a structured answer, for JSON mode."""
    schema = json.dumps(answer.schema, ensure_ascii=False)
    return f"Answer with one JSON object that fits this JSON schema, and nothing else:\n{schema}"


def format_attachments(attachments: Sequence[Attachment], profile: Profile) -> FormattedAttachments:
    """Format attachments as a user message or as a part of the system message; see `Profile`."""
    sent, omitted = split_attachments(attachments, profile.media_types)
    xml = format_documents_xml(sent)
    parts = list(chain.from_iterable(map(_format_binary_parts, sent)))

    # The texts are in the system message, or in a user message with the images and PDFs.
    is_in_system = profile.documents == "system"
    system = xml if is_in_system else ""
    text = "" if is_in_system else xml

    content: str | list[WireMessage] = text or parts
    if text and parts:
        content = [make_text_part(text), *parts]

    messages = (encode_json({"role": "user", "content": content}),) if content else ()
    return FormattedAttachments(messages, system, omitted)


def _format_binary_parts(attachment: Attachment) -> list[WireMessage]:
    """Return the parts of an image or a PDF; none for a text."""
    content = attachment.content
    name = format_attachment_name(attachment)
    if isinstance(content, str):
        return []

    media_type = attachment.media_type
    data = encode_base64(content)
    if media_type == PDF:
        return [make_pdf_part(name, data)]
    return [make_text_part(name), make_image_part(media_type, data)]
