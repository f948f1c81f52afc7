// Two versions of a text: prompts word by word, code and data line by line. Only differences, with
// a few lines around them, unless all is asked for.
import { type Change, diffLines, diffWordsWithSpace } from "diff";
import { useMemo, useState } from "react";
import { number, visible } from "../lib/format";
import { paired } from "./paired";

const AROUND = 3;

export function TextDiff({ before, after, by }: { before: string; after: string; by: "words" | "lines" }) {
  const [whole, setWhole] = useState(before.length + after.length < 4_000);
  const changes = useMemo(() => {
    // Words of very long texts take too long to compare; lines do not.
    const words = by === "words" && before.length + after.length < 200_000;
    return words ? diffWordsWithSpace(before, after) : paired(diffLines(before, after));
  }, [before, after, by]);
  if (before === after) return <p className="muted">No difference.</p>;
  return (
    <div>
      <div className="diff" tabIndex={0} role="region" aria-label="Differences">
        <pre>
          {changes.map((change, at) => (
            <Piece key={at} change={change} whole={whole} first={at === 0} last={at === changes.length - 1} />
          ))}
        </pre>
      </div>
      <button type="button" className="plain small" onClick={() => setWhole(!whole)}>
        {whole ? "only differences" : "the whole text"}
      </button>
    </div>
  );
}

function Piece({ change, whole, first, last }: { change: Change; whole: boolean; first: boolean; last: boolean }) {
  const text = visible(change.value);
  if (change.added) return <ins>{text}</ins>;
  if (change.removed) return <del>{text}</del>;
  if (whole) return <>{text}</>;
  const lines = text.split("\n");
  const hidden = lines.length - (first ? 0 : AROUND) - (last ? 0 : AROUND);
  if (hidden <= 1) return <>{text}</>;
  return (
    <>
      {!first && lines.slice(0, AROUND).join("\n")}
      <span className="hunk">{`${first ? "" : "\n"}… ${number(hidden)} lines as before …${last ? "" : "\n"}`}</span>
      {!last && lines.slice(-AROUND).join("\n")}
    </>
  );
}
