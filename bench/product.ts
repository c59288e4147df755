import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const entry = fileURLToPath(new URL('../src/app/main.ts', import.meta.url));

/** Starts a command of the product, and waits for a line that holds `text`. */
export async function start(args: readonly string[], env: Record<string, string>, text: string) {
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(process.execPath, [entry, ...args], {
    env: { PATH, HOME, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for await (const line of createInterface({ input: child.stdout })) if (line.includes(text)) return { child, line };
  throw new Error(`${args.join(' ')} ended`);
}
