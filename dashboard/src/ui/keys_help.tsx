// `?`: the keys, in one place.
import { Dialog } from "radix-ui";

const KEYS: [string, [string, string][]][] = [
  ["Everywhere", [["⌘K", "find a page or an id"], ["?", "these keys"], ["Esc", "close what is open"]]],
  ["Lists", [["J K", "next and previous row"], ["Enter", "open it"], ["/", "to the filters, among traces"]]],
  ["A trace", [["J K", "next and previous step"], ["← →", "fold and unfold"], ["E", "the next error"]]],
  ["Labelling", [["Y", "right"], ["N", "wrong"], ["0 5", "wrong to right, in between"], ["S", "skip"], ["U", "undo"]]],
];

export function KeysHelp({ close }: { close: () => void }) {
  return (
    <Dialog.Root open onOpenChange={(open) => !open && close()}>
      <Dialog.Portal>
        <Dialog.Overlay className="overlay" />
        <Dialog.Content className="dialog" aria-describedby={undefined}>
          <Dialog.Title asChild>
            <h2 style={{ margin: 0 }}>Keys</h2>
          </Dialog.Title>
          <div className="keys">
            {KEYS.map(([where, keys]) => (
              <section key={where}>
                <h3>{where}</h3>
                <dl>
                  {keys.map(([key, does]) => (
                    <div key={key} style={{ display: "contents" }}>
                      <dt>
                        {key.split(" ").map((each) => (
                          <kbd key={each}>{each}</kbd>
                        ))}
                      </dt>
                      <dd>{does}</dd>
                    </div>
                  ))}
                </dl>
              </section>
            ))}
          </div>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
