import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';

/**
 * Runs some work, and measures the longest turn of the event loop of this process meanwhile.
 * @returns the longest turn in milliseconds of CPU time, which other processes do not make longer
 */
export async function measureLongestTurn<T>(
  work: () => Promise<T>,
): Promise<{ readonly longestMs: number; readonly result: T }> {
  const working = { isOver: false, longestMs: 0 };
  const measure = async () => {
    for (let before = process.threadCpuUsage(); !working.isOver; ) {
      await wait(1);
      const { user, system } = process.threadCpuUsage();
      working.longestMs = Math.max(
        working.longestMs,
        (user + system - before.user - before.system) / 1_000,
      );
      before = { user, system };
    }
  };
  const measuring = measure();
  try {
    return { result: await work(), longestMs: working.longestMs };
  } finally {
    working.isOver = true;
    await measuring;
  }
}

/**
 * Sends a POST from a process of its own, so that this one has no work with the body.
 * @param body expression that makes the body
 * @returns the answer: its status, a blank, and its text
 */
export async function postFromProcess(
  url: string,
  headers: Record<string, string>,
  body: string,
): Promise<string> {
  const code = `
    const answer = await fetch(${JSON.stringify(url)}, {
      method: 'POST', redirect: 'manual', headers: ${JSON.stringify(headers)}, body: ${body} });
    console.log(answer.status, await answer.text());`;
  const client = spawn(process.execPath, ['--input-type=module', '--eval', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  client.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  await once(client, 'close');
  return text.trimEnd();
}
