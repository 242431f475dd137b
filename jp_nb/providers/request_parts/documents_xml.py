"""Attached texts as one XML text, for APIs that have no parts for attachments.

Source: `docs/providers.md`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Final

from jp_nb.agent.provider import Attachment

_MARKUP: Final = re.compile("[<>&]")
"""Characters that have a meaning in XML."""
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML does not allow."""


def format_documents_xml(attachments: Iterable[Attachment]) -> str:
    """Return the text attachments as one XML text; "" if there are none.

    Shape:
        <documents>
        <document>
        <index>1</index>
        <source>notes.md</source>
        <content><![CDATA[a < b]]></content>
        </document>
        </documents>

    Contents are escaped, so a text cannot end its own document. U+FFFD replaces characters that XML
    does not allow, such as NUL.
    """
    documents = ""
    texts = ((a.source, a.content) for a in attachments if isinstance(a.content, str))
    for index, (source, text) in enumerate(texts, start=1):
        name = html.escape(_NO_XML.sub("\ufffd", source), quote=False)
        content = _NO_XML.sub("\ufffd", text)
        if _MARKUP.search(content):
            # `]]>` would end the section, so it is divided between two sections.
            content = "<![CDATA[" + content.replace("]]>", "]]]]><![CDATA[>") + "]]>"

        documents += (
            f"<document>\n<index>{index}</index>\n"
            f"<source>{name}</source>\n"
            f"<content>{content}</content>\n</document>\n"
        )

    return f"<documents>\n{documents}</documents>" if documents else ""
