// Answers a question about prices. Nothing in here knows of Ratchet.
const SHOP = process.env.SHOP || "north";

const INSTRUCTIONS = `You answer for the ${SHOP} shop.
Never guess; say "unknown" where you don't know.`;

let task = "";
for await (const piece of process.stdin) task += piece;
const response = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
  method: "POST",
  headers: {
    "content-type": "application/json",
    authorization: `Bearer ${process.env.OPENAI_API_KEY}`,
  },
  body: JSON.stringify({
    model: "gpt-4o-mini",
    messages: [
      { role: "system", content: INSTRUCTIONS },
      { role: "user", content: JSON.parse(task).input },
    ],
  }),
});
if (!response.ok) throw new Error(await response.text());
console.log((await response.json()).choices[0].message.content);
