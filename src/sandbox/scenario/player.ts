import type { Fault } from '../faults.ts';
import { switchesSchema } from '../paging.ts';
import { Refusal } from '../refusal.ts';
import { simulateUntil } from '../robot/robot.ts';
import type { Script } from '../script.ts';
import type { Simulation } from '../store/simulation.ts';
import type { World } from '../world.ts';
import { type CheckResult, evaluateCheck } from './checks.ts';
import { receiveGoods, returnGoods, seedHistory, setStock } from './goods-steps.ts';
import { findMissingOrders, moveShipments, placeOrders, StepError, shipOrder } from './order-steps.ts';
import { findMoment, findStart } from './read-scenario.ts';
import { type Arguments, type Scenario, type Step, type Verb, verbNames } from './schema.ts';

type Performer<V extends Verb> = (simulation: Simulation, atMs: number, given: Arguments<V>) => void;
/** The verbs that change the data of the client. */
const performers: { readonly [V in Verb]?: Performer<V> } = {
  place: placeOrders,
  stock: setStock,
  ship: shipOrder,
  move: moveShipments,
  return: returnGoods,
  inbound: receiveGoods,
  seed: seedHistory,
};

/**
 * Plays a scenario for the first client of a world, in the world's virtual time. A step happens exactly at its moment:
 * the world asks before each request and each advance for what is due.
 */
export class ScenarioPlayer implements Script {
  readonly #world: World;
  readonly #scenario: Scenario;
  /** Index of the next step. */
  #index = 0;
  /** The moment of the last step. Spans of `after` begin there. */
  #lastMs = 0;
  /** The end of the waiting of an `expect` step; null if no step waits. */
  #deadlineMs: number | null = null;
  #faultEnds: { readonly atMs: number; readonly fault: Fault }[] = [];
  #results: CheckResult[] = [];
  #isPlaying = false;

  /** @param world must have been created at the start of the scenario */
  constructor(scenario: Scenario, world: World) {
    this.#scenario = scenario;
    this.#world = world;
    this.restart();
  }

  restart(): void {
    this.#index = 0;
    this.#deadlineMs = null;
    this.#faultEnds = [];
    this.#results = [];
    this.#lastMs = findStart(this.#scenario, this.#simulation.store.zone);
    this.#world.switches = switchesSchema.parse({ ...this.#world.switches, ...this.#scenario.switches });
  }

  play(): void {
    // A step that asks for a client must not play the same step again.
    if (this.#isPlaying) return;
    this.#isPlaying = true;
    try {
      while (this.#playNext());
    } finally {
      this.#isPlaying = false;
    }
  }

  get name(): string {
    return this.#scenario.name;
  }

  get isOver(): boolean {
    return this.#index === this.#scenario.steps.length;
  }

  /** The results of all checks so far. */
  get results(): readonly CheckResult[] {
    return this.#results;
  }

  get progress(): Readonly<Record<string, unknown>> {
    const { name, about, steps } = this.#scenario;
    const step = steps[this.#index];
    const next = step && {
      step: this.#index + 1,
      verb: findVerb(step),
      at: new Date(this.#deadlineMs ?? this.#findDue(step)).toISOString(),
      waitsFor: this.#deadlineMs === null || !step.expect ? null : findMissingOrders(this.#simulation, step.expect),
    };
    return {
      name,
      about,
      now: new Date(this.#world.clock.nowMs()).toISOString(),
      over: this.isOver,
      steps: steps.length,
      next: next ?? null,
      ok: this.#results.every(({ ok }) => ok),
      checks: this.#results,
    };
  }

  get #simulation(): Simulation {
    return this.#world.getUnadvancedClient(this.#world.clientNames[0] ?? '').simulation;
  }

  #findDue(step: Step): number {
    return Math.max(this.#lastMs, findMoment(step, this.#scenario, this.#simulation.store.zone, this.#lastMs));
  }

  /** Performs the next step or ends a fault, if one is due. Returns whether one was. */
  #playNext(): boolean {
    const nowMs = this.#world.clock.nowMs();
    const step = this.#scenario.steps[this.#index];
    const [end] = this.#faultEnds;
    const dueMs = step === undefined ? Number.POSITIVE_INFINITY : this.#findNextMoment(step, nowMs);
    if (end !== undefined && end.atMs <= Math.min(dueMs, nowMs)) {
      this.#faultEnds.shift();
      this.#world.faults.end(end.fault);
      return true;
    }
    if (step === undefined || dueMs > nowMs) return false;
    simulateUntil(this.#simulation, dueMs);
    this.#lastMs = dueMs;
    if (this.#begin(step, dueMs)) this.#index++;
    this.#world.changes++;
    return true;
  }

  /** Returns when a step begins; if it waits, when the waiting ends. */
  #findNextMoment(step: Step, nowMs: number): number {
    if (this.#deadlineMs === null || !step.expect) return this.#findDue(step);
    const isReceived = findMissingOrders(this.#simulation, step.expect).length === 0;
    return isReceived ? Math.max(this.#lastMs, Math.min(nowMs, this.#deadlineMs)) : this.#deadlineMs;
  }

  /** Performs a step. Returns whether it has ended: one that waits for orders is performed twice. */
  #begin(step: Step, atMs: number): boolean {
    if (step.expect !== undefined) return this.#expectOrders(step.expect, atMs);
    try {
      this.#perform(step, atMs);
    } catch (error) {
      if (!(error instanceof StepError || error instanceof Refusal)) throw error;
      this.#addResult({ what: findVerb(step), expected: 'carried out', actual: error.message, ok: false });
    }
    return true;
  }

  #expectOrders(expected: Arguments<'expect'>, atMs: number): boolean {
    const missing = findMissingOrders(this.#simulation, expected);
    if (this.#deadlineMs === null && missing.length > 0) {
      this.#deadlineMs = atMs + expected.within;
      return false;
    }
    this.#deadlineMs = null;
    const numbers = Object.keys(expected.orders);
    const found = numbers.filter((number) => !missing.includes(number));
    const [what, wanted] = ['orders received', numbers.join(', ')];
    this.#addResult({ what, expected: wanted, actual: found.join(', ') || 'none', ok: missing.length === 0 });
    const { store } = this.#simulation;
    for (const number of found) {
      const check = { order: { number, received: { min: 1 }, lines: expected.orders[number] } };
      for (const result of evaluateCheck(check, this.#world, store)) if (!result.ok) this.#addResult(result);
    }
    return true;
  }

  #perform(step: Step, atMs: number): void {
    const { fault, schema, jump, check } = step;
    if (fault !== undefined) this.#beginFault(fault, atMs);
    if (schema !== undefined) this.#world.schemaChanges = [...this.#world.schemaChanges, schema];
    if (jump !== undefined) {
      this.#world.clock.advance(jump);
      this.#lastMs = atMs + jump;
    }
    for (const wanted of check ?? [])
      for (const result of evaluateCheck(wanted, this.#world, this.#simulation.store)) this.#addResult(result);
    const verb = findVerb(step);
    (performers[verb] as Performer<Verb> | undefined)?.(this.#simulation, atMs, step[verb] as never);
  }

  #beginFault({ for: span, ...fault }: Arguments<'fault'>, atMs: number): void {
    this.#world.faults.add(fault);
    if (span === undefined) return;
    this.#faultEnds.push({ atMs: atMs + span, fault });
    this.#faultEnds.sort((left, right) => left.atMs - right.atMs);
  }

  #addResult(result: Omit<CheckResult, 'step'>): void {
    this.#results.push({ step: this.#index + 1, ...result });
  }
}

function findVerb(step: Step): Verb {
  return verbNames.find((name) => step[name] !== undefined) ?? 'check';
}
