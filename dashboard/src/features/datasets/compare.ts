// What changed between two versions of a dataset, by task id.

interface TaskLike {
  id: string;
  input: unknown;
  expected: unknown;
}

interface Versioned<T extends TaskLike> {
  tasks: T[];
  splits: Record<string, string>;
}

export interface Difference<T extends TaskLike> {
  added: T[];
  removed: T[];
  changed: { before: T; after: T }[];
  moved: { task: T; from: string; to: string }[];
}

export function compare<T extends TaskLike>(before: Versioned<T>, after: Versioned<T>): Difference<T> {
  const old = new Map(before.tasks.map((task) => [task.id, task]));
  const difference: Difference<T> = { added: [], removed: [], changed: [], moved: [] };
  for (const task of after.tasks) {
    const known = old.get(task.id);
    if (!known) {
      difference.added.push(task);
      continue;
    }
    old.delete(task.id);
    if (JSON.stringify([known.input, known.expected]) !== JSON.stringify([task.input, task.expected])) difference.changed.push({ before: known, after: task });
    const [from, to] = [before.splits[task.id] ?? "", after.splits[task.id] ?? ""];
    if (from !== to) difference.moved.push({ task, from, to });
  }
  difference.removed.push(...old.values());
  return difference;
}
