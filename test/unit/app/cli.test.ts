import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { createCli } from '../../../src/app/program/program.ts';

/** Commands that do something: those without commands of their own. */
const leavesOf = (command: Command): Command[] =>
  command.commands.length === 0 ? [command] : command.commands.flatMap(leavesOf);

function helpOf(command: Command): string {
  let text = '';
  command.configureOutput({
    writeOut: (written) => {
      text += written;
    },
  });
  command.outputHelp();
  return text;
}

test('every command says what it does, with an example that is a call of it', () => {
  const cli = createCli();
  const all = [cli, ...cli.commands.filter(({ commands }) => commands.length > 0), ...leavesOf(cli)];
  expect(all.length).toBeGreaterThan(26);
  for (const command of all) {
    const help = helpOf(command);
    const path = [command.parent?.parent ? command.parent.name() : '', command === cli ? '' : command.name()]
      .filter(Boolean)
      .join(' ');
    expect([path, command.description().length > 10]).toEqual([path, true]);
    const [, examples = ''] = /Examples?:\n(.*)/s.exec(help) ?? [];
    const isCalled = examples.includes(`fulfilment-sync ${path}`) || examples.includes(`npm run ${path}`);
    expect([path, isCalled]).toEqual([path, true]);
  }
});

test('whatever shows a table does so for programs too', () => {
  const tables = [
    'status',
    'doctor',
    'list',
    'show',
    'retry',
    'done',
    'cancel',
    'reconcile',
    'backfill',
    'refetch',
    'replay',
  ];
  const without = leavesOf(createCli())
    .filter((command) => tables.includes(command.name()))
    .filter((command) => !command.options.some(({ long }) => long === '--json'));
  expect(without.map((command) => command.name())).toEqual([]);
});
