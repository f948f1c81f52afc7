// The chat, and the feedback that goes from the page straight to Ratchet.
const settings = fetch("/settings.json").then((response) => response.json());
const messages = document.getElementById("messages");
const form = document.getElementById("ask");
const question = document.getElementById("question");
const problem = document.getElementById("problem");

let conversation = "";

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const asked = question.value.trim();
  if (!asked || form.hasAttribute("aria-busy")) return;
  form.setAttribute("aria-busy", "true");
  problem.textContent = "";
  const item = say(asked);
  try {
    const turn = await ask(asked);
    conversation = turn.conversation_id;
    showAnswer(turn);
    question.value = "";
  } catch (error) {
    item.remove();
    problem.textContent = error.message;
  }
  form.removeAttribute("aria-busy");
  question.focus();
});

async function ask(message) {
  const response = await fetch("/api/chat", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ message, conversation_id: conversation }),
  });
  const turn = await response.json();
  if (!response.ok) throw new Error(turn.error);
  return turn;
}

function say(text) {
  const item = document.createElement("li");
  item.className = "person";
  item.append(Object.assign(document.createElement("p"), { textContent: text }));
  messages.append(item);
  return item;
}

function showAnswer(turn) {
  const item = document.getElementById("answer").content.cloneNode(true).firstElementChild;
  const said = item.querySelector(".said");
  item.querySelector(".text").textContent = turn.answer;

  const thumbs = item.querySelectorAll("[data-thumb]");
  for (const thumb of thumbs) {
    thumb.addEventListener("click", async () => {
      const sent = { kind: "thumbs", value: Number(thumb.dataset.thumb) };
      if (await tell(turn, sent, said)) {
        for (const each of thumbs) each.setAttribute("aria-pressed", String(each === thumb));
      }
    });
  }
  item.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const { correction } = event.target.elements;
    if (await tell(turn, { kind: "correction", content: correction.value }, said)) {
      item.querySelector("details").open = false;
    }
  });
  messages.append(item);
}

/** Give feedback on one answer; whether it arrived. */
async function tell(turn, statement, said) {
  const { ratchet, feedbackKey } = await settings;
  const feedback = {
    id: newId(), // the same when it is sent again, so that it counts once
    trace_id: turn.trace_id,
    span_id: turn.span_id,
    conversation_id: turn.conversation_id,
    ...statement,
  };
  const request = {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(feedbackKey && { authorization: `Bearer ${feedbackKey}` }),
    },
    body: JSON.stringify({ feedback: [feedback] }),
    keepalive: true, // also when the page is left
  };
  const send = () => fetch(new URL("/v1/feedback", ratchet), request);
  const response = await send().catch(send).catch(() => null);
  said.textContent = response?.ok ? "Thank you." : "Your feedback did not arrive. Try again.";
  return Boolean(response?.ok);
}

function newId() {
  // crypto.randomUUID is there on HTTPS and localhost alone.
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
