import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { createCli } from '../../../src/cli/program.ts';

const commandLine = await createCli();

/** Returns the commands below `command` that have no subcommands. */
const findLeafCommands = (command: Command): Command[] =>
  command.commands.length === 0 ? [command] : command.commands.flatMap(findLeafCommands);

function readHelp(command: Command): string {
  let text = '';
  command.configureOutput({
    writeOut: (written) => {
      text += written;
    },
  });
  command.outputHelp();
  return text;
}

test('the help of every command describes it and has an example that calls it', () => {
  const cli = commandLine;
  const all = [
    cli,
    ...cli.commands.filter(({ commands }) => commands.length > 0),
    ...findLeafCommands(cli),
  ];
  expect(all.length).toBeGreaterThan(26);
  for (const command of all) {
    const help = readHelp(command);
    const path = [
      command.parent?.parent ? command.parent.name() : '',
      command === cli ? '' : command.name(),
    ]
      .filter(Boolean)
      .join(' ');
    expect([path, command.description().length > 10]).toEqual([path, true]);
    const [, examples = ''] = /Examples?:\n(.*)/s.exec(help) ?? [];
    const isCalled =
      examples.includes(`fulfilment-sync ${path}`) || examples.includes(`npm run ${path}`);
    expect([path, isCalled]).toEqual([path, true]);
  }
});
