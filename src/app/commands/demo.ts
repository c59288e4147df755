export interface DemoOptions {
  readonly once?: boolean;
}
export async function demoCommand(_options: DemoOptions): Promise<number> {
  return 0;
}
