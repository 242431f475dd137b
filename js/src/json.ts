/**
 * Read JSON values of unknown shape.
 *
 * Messages and metadata may have been written by anyone. Names in them are compared, and never used
 * as keys of objects without a check.
 */

export type JsonObject = Record<string, unknown>;

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The own property `key` of `object`; undefined if there is none, or `object` is no object. */
export function own(object: unknown, key: string): unknown {
  return isObject(object) && Object.hasOwn(object, key) ? object[key] : undefined;
}

/** `value` if it is a list, else an empty list. */
export function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Whether two values have the same JSON text, keys in the same order. */
export function hasSameText(first: unknown, second: unknown): boolean {
  return JSON.stringify(first) === JSON.stringify(second);
}

/** JSON text that is the same for the same value, in whatever order its keys are. */
export function sortedText(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) =>
    isObject(each) ? Object.fromEntries(Object.entries(each).sort(byKey)) : each
  );
}

function byKey([first]: [string, unknown], [second]: [string, unknown]): number {
  return first < second ? -1 : 1;
}

/** A copy of `object` with the keys that `keep` accepts. */
export function filterKeys(object: JsonObject, keep: (key: string) => boolean): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([key]) => keep(key)));
}

/** Whether `value` is an integer from 0 to `most`. */
export function isCount(value: unknown, most = Number.MAX_SAFE_INTEGER): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most;
}
