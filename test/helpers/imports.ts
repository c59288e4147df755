/** An import or re-export of a module, static or dynamic. */
export interface Import {
  /** The specifier, as it is written. */
  readonly target: string;
  /** True for `import type` and `export type`. */
  readonly typesOnly: boolean;
}

const statement =
  /^\s*(?:import|export)\s+(type\s+)?(?:[^'";]*?\sfrom\s+)?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]\s*\)/gm;

/** Returns the imports of a TypeScript source. */
export function parseImports(source: string): Import[] {
  return [...source.matchAll(statement)].map(([, type, target, dynamic]) => ({
    target: target ?? dynamic ?? '',
    typesOnly: type !== undefined,
  }));
}

/**
 * Returns the groups of files that import each other, directly or through others (strongly
 * connected components).
 * @param graph the files that each file imports
 */
export function findCycles(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const cycles: string[][] = [];
  const index = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const visit = (file: string): number => {
    const number = index.size;
    index.set(file, number);
    lowest.set(file, number);
    stack.push(file);
    for (const target of graph.get(file) ?? []) {
      if (!graph.has(target)) continue;
      const reached = index.has(target)
        ? stack.includes(target)
          ? (index.get(target) ?? number)
          : number
        : visit(target);
      lowest.set(file, Math.min(lowest.get(file) ?? number, reached));
    }
    if (lowest.get(file) === number) {
      const cycle = stack.splice(stack.indexOf(file));
      if (cycle.length > 1) cycles.push(cycle.toSorted());
    }
    return lowest.get(file) ?? number;
  };
  for (const file of graph.keys()) if (!index.has(file)) visit(file);
  return cycles;
}
