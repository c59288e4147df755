import { Argument, InvalidArgumentError } from 'commander';
import { polledStreams } from '../../../config/jobs.ts';

/** Names of the streams, for help and completion; what a command knows, it looks up itself. */
export const streams = Object.values(polledStreams);

/** Makes what a command came to the exit code of the process. */
export async function finish(command: Promise<number>): Promise<void> {
  process.exitCode = await command;
}

/** @throws InvalidArgumentError where the option's value is no whole number */
export function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}

/** An argument that completion knows the values of; the command itself says what it thinks of another. */
export const oneOf = (name: string, values: readonly string[]) =>
  new Argument(name, values.join(', ')).choices(values).argParser((value) => value);
