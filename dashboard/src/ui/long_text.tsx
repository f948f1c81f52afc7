// Text of agents and users: always text, never markup; long text is shown in part until asked for.
import { useState } from "react";
import { counted, visible } from "../lib/format";
import { Copy } from "./basics";

const SHOWN = 6_000;

export function LongText({ text, mono }: { text: string; mono?: boolean }) {
  const [whole, setWhole] = useState(false);
  const cut = !whole && text.length > SHOWN;
  return (
    <div>
      <pre style={mono ? undefined : { fontFamily: "inherit", fontSize: "inherit" }} dir="auto">
        {visible(cut ? text.slice(0, SHOWN) : text)}
      </pre>
      {cut && (
        <div className="row small muted">
          The first {SHOWN.toLocaleString("en")} of {counted(text.length, "character")}.
          <button type="button" className="plain" onClick={() => setWhole(true)}>
            show all
          </button>
          <Copy text={text} />
        </div>
      )}
    </div>
  );
}
