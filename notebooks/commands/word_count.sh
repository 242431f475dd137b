#!/bin/sh
# A tool for jp_nb: counts the words of its first argument.
# The second argument is the user's answer to the question, or `null` before the answer.
text=$1 links=$2

if [ "$links" = null ]; then
    echo '{"type": "needs_input", "question": {"id": "links", "text": "Do links count as words?",
           "answer_type": {"type": "boolean"}}}'
    exit
fi
if [ -z "$text" ]; then
    echo '{"type": "error", "message": "There is no text. Pass the text to count."}'
    exit
fi
[ "$links" = true ] || text=$(printf %s "$text" | sed 's|https\{0,1\}://[^ ]*||g')
printf %s "$text" | wc -w | tr -d ' '
