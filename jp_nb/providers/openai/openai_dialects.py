"""Create the provider of OpenAI, or of a server with one of its APIs, in the configured dialect.

The dialects are Chat Completions (`chat`) and the Responses API (`responses`).

A *profile* has the differences of a server from OpenAI's own, such as the path of its API and the
types of files that it accepts (`chat_profiles.py`). Its `local` is the kind of a local server, such
as `ollama`, which the endpoint needs for its advice in errors.

Source: `docs/providers.md`, https://platform.openai.com/docs/api-reference.
"""

from __future__ import annotations

from dataclasses import replace

from jp_nb.agent.provider import Provider
from jp_nb.config.tree.named_servers import Server
from jp_nb.config.tree.provider_settings import ChatCompletionsProvider, OpenRouter
from jp_nb.providers.network.endpoint import Endpoint, find_dialect, make_endpoint
from jp_nb.providers.openai.chat_profiles import PROFILES, Profile, make_profile
from jp_nb.providers.openai.openai_chat import ChatProvider
from jp_nb.providers.request_parts.attachment_parts import IMAGE_TYPES


def create_server(name: str, config: Server) -> Provider:
    """Return the provider for `name`, a server of the user's configuration.

    It has a known profile, which `config.profile` names and changes.

    Raises:
        ConfigError: A setting is not valid.
    """
    profile = _set_images(make_profile(name, config.profile), config.images)
    endpoint = make_endpoint(name, config, profile.path, headers={})
    return _create_for_dialect(config.dialect, endpoint, profile)


def _set_images(profile: Profile, takes_images: bool | None) -> Profile:
    """Return `profile` with or without images; as it is if the user did not decide."""
    if takes_images is None or takes_images == profile.takes_images:
        return profile

    media_types = profile.media_types - IMAGE_TYPES
    if takes_images:
        media_types = profile.media_types | IMAGE_TYPES
    return replace(profile, media_types=media_types)


def _create_for_dialect(dialect: str | None, endpoint: Endpoint, profile: Profile) -> Provider:
    """Return the provider for `dialect`, which is `chat` if it is None."""
    endpoint = replace(endpoint, local=profile.local or "")
    if dialect != "responses":
        return ChatProvider(endpoint, profile)

    # Few conversations need this module.
    from jp_nb.providers.openai.openai_responses import ResponsesProvider

    path = profile.path.replace("/chat/completions", "/responses")
    return ResponsesProvider(
        replace(endpoint, path=path), media_types=profile.media_types, local=profile.local
    )


def create(name: str, config: ChatCompletionsProvider) -> Provider:
    """Return the provider `name`, one of those that have a profile, with the settings of `config`.

    Raises:
        ConfigError: A setting is not valid.
    """
    profile = _set_images(PROFILES[name], config.images)

    headers = {}
    if isinstance(config, OpenRouter):  # it lists the apps that use it
        attribution = {"x-title": config.app_name, "http-referer": config.app_referrer}
        headers = {key: value for key, value in attribution.items() if value}

    endpoint = make_endpoint(name, config, profile.path, headers=headers)
    return _create_for_dialect(find_dialect(name, config), endpoint, profile)
