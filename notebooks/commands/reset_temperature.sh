#!/bin/sh
# A tool for jp_nb: removes the temperature from the configuration.
# Arguments: the current temperature, and the reason of a rejection; each may be `null`.
now=$1 rejected=$2

if [ "$rejected" != null ]; then
    echo "The temperature stays at $now: $rejected."
    exit
fi
echo '{"type": "success", "content": "The temperature was '"$now"'.",
       "unset": ["assistant.model.parameters.temperature"]}'
