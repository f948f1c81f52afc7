#!/bin/sh
# Answers a question about prices with curl. Nothing in here knows of Ratchet.
question=$(sed -n 's/.*"input":"\([^"]*\)".*/\1/p' "$RATCHET_TASK_FILE")
instructions="You answer for the ${SHOP:-north} shop. Never guess; say unknown where you don't know."
curl -sS --fail-with-body "$CLAUDE_URL/v1/messages" \
  -H 'content-type: application/json' -H "x-api-key: $ANTHROPIC_API_KEY" \
  -d "{\"model\":\"claude-haiku-4-5\",\"max_tokens\":50,\"system\":\"$instructions\",
       \"messages\":[{\"role\":\"user\",\"content\":\"$question\"}]}" |
  sed 's/.*"text": *"\([^"]*\)".*/\1/'
