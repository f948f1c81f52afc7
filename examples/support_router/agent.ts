// The same agent in TypeScript: `node agent.ts TICKET` prints the ticket's JSON. Node 22.18 or newer runs it as it is.

const INSTRUCTION = `You sort the support tickets of a shop for household appliances.
Answer with one JSON object and nothing else. Its keys:
"team": safety, repairs, logistics, billing, accounts or sales,
"priority": how urgent it is,
"product": the kind of appliance that it is about, in one word, or null,
"order": the order number, or null.`;

type Completion = { choices: { message: { content: string | null } }[] };

async function route(ticket: string): Promise<string> {
  const { OPENAI_BASE_URL, OPENAI_API_KEY } = process.env;
  const response = await fetch(`${OPENAI_BASE_URL}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${OPENAI_API_KEY}` },
    body: JSON.stringify({
      model: "local",
      messages: [
        { role: "system", content: INSTRUCTION },
        { role: "user", content: ticket },
      ],
      temperature: 0,
      max_tokens: 80,
    }),
    signal: AbortSignal.timeout(120_000),
  });
  if (!response.ok) throw new Error(`The model answered ${response.status}: ${await response.text()}`);
  const { choices } = (await response.json()) as Completion;
  return (choices[0].message.content ?? "").trim();
}

console.log(await route(process.argv.slice(2).join(" ")));
