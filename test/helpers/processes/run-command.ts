import { runCli } from '../../../src/cli/program.ts';

let running = false;

/**
 * Runs a command of the product to its end in this process, which takes a tenth of the time of a
 * new process. The command sees only the given settings. cli.test.ts checks that a process ends with
 * the exit code of its command.
 * @returns the exit code, and everything that it wrote to standard output and standard error
 */
export async function runCommand(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ code: number; output: string }> {
  if (running) throw new Error('Commands share this process: wait for the one before');
  running = true;
  const before = { ...process.env };
  const { PATH = '', HOME = '', TMPDIR = '' } = before;
  const written: string[] = [];
  const originals = [process.stdout, process.stderr].map((stream) => ({
    stream,
    write: stream.write,
  }));
  replaceEnvironment({ PATH, HOME, TMPDIR, ...env });
  for (const { stream } of originals)
    stream.write = ((chunk: string | Uint8Array) => {
      written.push(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString());
      return true;
    }) as typeof stream.write;
  try {
    await runCli(words);
    return { code: Number(process.exitCode ?? 0), output: written.join('').trimEnd() };
  } finally {
    for (const { stream, write } of originals) stream.write = write;
    replaceEnvironment(before);
    process.exitCode = undefined;
    // A command lets its process end although the channel to its parent is open. This process ends
    // when its parent says so.
    process.channel?.ref();
    running = false;
  }
}

function replaceEnvironment(env: Readonly<Record<string, string | undefined>>): void {
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
  for (const [name, value] of Object.entries(env))
    if (value !== undefined) process.env[name] = value;
}
