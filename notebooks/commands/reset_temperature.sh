#!/bin/sh
# A tool for jp_nb: takes the temperature out of the configuration.
# Its arguments: the temperature now, and why the change was rejected; `null` for none.
now=$1 rejected=$2

if [ "$rejected" != null ]; then
    echo "The temperature stays at $now: $rejected."
    exit
fi
echo '{"type": "success", "content": "The temperature was '"$now"'.",
       "unset": ["assistant.model.parameters.temperature"]}'
