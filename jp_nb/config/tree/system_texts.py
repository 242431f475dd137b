"""Make the texts of the system prompt from the settings of the assistant.

The setting `system_prompt` is sent first. Sections and lists of instructions follow in the order of
their `position`. A list of instructions is a section with the tag `instruction`.

Source: `docs/configuration.md`.
"""

from __future__ import annotations

from jp_nb.config.tree.assistant_settings import Assistant, Contrast, Instruction, Section


def list_system_texts(assistant: Assistant) -> tuple[str, ...]:
    """Return the system texts in the order in which they are sent."""
    sections = list(assistant.system_prompt_sections)
    sections += map(_make_section, assistant.instructions)
    sections.sort(key=lambda section: section.position)

    texts = [assistant.system_prompt, *map(_render_section, sections)]
    return tuple(text for text in texts if text.strip())


def _render_section(section: Section) -> str:
    """Return a section as text for the model: an XML element, or Markdown without a tag."""
    content = section.content.strip()
    if section.tag is None:
        return f"# {section.title}\n\n{content}" if section.title else content

    # A CDATA section may contain anything but its own end, which is divided into two sections.
    if any(sign in content for sign in "<>&"):
        content = "<![CDATA[" + content.replace("]]>", "]]]]><![CDATA[>") + "]]>"

    title = ""
    if section.title:
        from xml.sax.saxutils import quoteattr

        title = f" title={quoteattr(section.title)}"
    return f"<{section.tag}{title}>\n{content}\n</{section.tag}>"


def _make_section(instruction: Instruction) -> Section:
    parts = [instruction.description or ""]
    parts.append("\n".join(f"- {item}" for item in instruction.items))

    if instruction.examples:
        parts.append("**Examples**")
    for example in instruction.examples:
        text = _format_contrast(example) if isinstance(example, Contrast) else example
        parts.append(text)

    return Section(
        content="\n\n".join(part for part in parts if part),
        tag="instruction",
        title=instruction.title,
        position=instruction.position,
    )


def _format_contrast(contrast: Contrast) -> str:
    text = f"Good: {contrast.good}\nBad: {contrast.bad}"
    return f"{text}\nReason: {contrast.reason}" if contrast.reason else text
