import { existsSync, readdirSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { scenariosFolder } from '../../core/installation.ts';
import { DocumentError, readDocument } from '../document.ts';
import { matchesOperation } from '../faults.ts';
import { operations } from '../operations/all.ts';
import type { Zone } from '../zone.ts';
import { type Scenario, type Step, scenarioSchema } from './schema.ts';

/** Returns the names of the scenarios that come with the program. */
export function listScenarios(): string[] {
  return readdirSync(scenariosFolder)
    .filter((name) => extname(name) === '.yaml')
    .map((name) => basename(name, '.yaml'))
    .sort();
}

/**
 * Reads a scenario.
 * @param given the path of a YAML or JSON file, or the name of a scenario that comes with the program
 * @throws DocumentError that names the file, the step and the member, if the scenario is wrong
 */
export function readScenario(given: string, zone: Zone): Scenario {
  const file = findFile(given);
  const scenario = { ...readDocument(file, scenarioSchema, nameStep), name: basename(file, extname(file)) };
  const problems = [...findWrongTimes(scenario, zone), ...scenario.steps.flatMap(findWrongOperations)];
  if (problems.length > 0) throw new DocumentError(file, problems);
  return scenario;
}

function findFile(given: string): string {
  if (existsSync(given)) return given;
  if (listScenarios().includes(given)) return join(fileURLToPath(scenariosFolder), `${given}.yaml`);
  throw new DocumentError(given, [`there is no such file, nor such a scenario (${listScenarios().join(', ')})`]);
}

/** Returns the words for a place in a scenario: steps count from 1. */
function nameStep([first, second, ...rest]: readonly PropertyKey[]): string {
  if (first !== 'steps' || typeof second !== 'number')
    return [first, second, ...rest]
      .filter((part) => part !== undefined)
      .map(String)
      .join('.');
  return [`step ${second + 1}`, ...(rest.length === 0 ? [] : [rest.map(String).join('.')])].join(', ');
}

/** Returns the moment of a step, in milliseconds since 1970. A step without a time follows the one before at once. */
export function findMoment({ at, after = 0 }: Step, scenario: Scenario, zone: Zone, lastMs: number): number {
  return at === undefined ? lastMs + after : zone.toInstant(scenario.start.slice(0, 10), at.day - 1, at.time);
}

/** Returns the moment at which a scenario begins, in milliseconds since 1970. */
export function findStart({ start }: Scenario, zone: Zone): number {
  return zone.toInstant(start.slice(0, 10), 0, start.slice(11));
}

function findWrongTimes(scenario: Scenario, zone: Zone): string[] {
  const problems: string[] = [];
  let lastMs = findStart(scenario, zone);
  for (const [index, step] of scenario.steps.entries()) {
    const atMs = findMoment(step, scenario, zone, lastMs);
    if (atMs < lastMs) problems.push(`step ${index + 1}, at: is before ${index === 0 ? 'the start' : `step ${index}`}`);
    else lastMs = atMs + (step.jump ?? 0);
  }
  return problems;
}

function findWrongOperations({ fault, check = [] }: Step, index: number): string[] {
  const named = [fault, ...check.map(({ requests }) => requests)].flatMap((part) => part?.operation ?? []);
  return named
    .filter((pattern) => !operations.some(({ name }) => matchesOperation(pattern, name)))
    .map(
      (pattern) =>
        `step ${index + 1}: ${pattern} matches no operation; known are ${operations.map(({ name }) => name).join(', ')}`,
    );
}
