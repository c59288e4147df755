import { InvalidArgumentError } from 'commander';

/** Makes what a command came to the exit code of the process. */
export async function finish(command: Promise<number>): Promise<void> {
  process.exitCode = await command;
}

/** @throws InvalidArgumentError where the option's value is no whole number */
export function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}
