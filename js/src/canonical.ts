/** Canonical JSON text in ASCII, as in Python; see docs/record.md, Signature. */

import { isObject } from './json';

export function canonical(value: unknown): string {
  if (typeof value === 'string') {
    return asciiText(value);
  }
  if (typeof value === 'number') {
    return numberText(value);
  }
  if (Array.isArray(value)) {
    return `[${value.map(canonical).join(',')}]`;
  }
  if (!isObject(value)) {
    return JSON.stringify(value ?? null);
  }
  const texts = Object.keys(value).map(key => [wholeText(key), key] as const);
  texts.sort(([a], [b]) => (byCodePoint(a) < byCodePoint(b) ? -1 : 1));
  const members = texts.map(([text, key]) => `${asciiText(text)}:${canonical(value[key])}`);
  return `{${members.join(',')}}`;
}

/** The CRC-32 of the canonical form of the entries in a segment. */
export function checkOf(events: unknown[]): string {
  const text = canonical(events);
  let rest = ~0;
  for (let i = 0; i < text.length; i++) {
    rest = CRC[(rest ^ text.charCodeAt(i)) & 255] ^ (rest >>> 8);
  }
  return (~rest >>> 0).toString(16).padStart(8, '0');
}

const CRC = Array.from({ length: 256 }, (_, start) => {
  let n = start;
  for (let k = 0; k < 8; k++) {
    n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  }
  return n;
});

function wholeText(text: string): string {
  return text.replace(/\p{Surrogate}/gu, '\ufffd');
}

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function asciiText(text: string): string {
  return JSON.stringify(wholeText(text)).replace(/[^ -~]/g, escaped);
}

/** UTF-16 code units would sort characters above U+FFFF before U+E000. */
function byCodePoint(text: string): string {
  return text.replace(/[\ud800-\udfff]|[\ue000-\uffff]/g, unit =>
    String.fromCharCode(unit.charCodeAt(0) + (unit < '\ue000' ? 0x2000 : -0x800))
  );
}

function numberText(x: number): string {
  if (!Number.isFinite(x)) {
    return 'null';
  }
  if (x === 0) {
    return '0.0';
  }
  const [, sign, digits, power] = /^(-?)([0-9.]+)e(.+)$/.exec(x.toExponential())!;
  const exponent = Number(power);
  if (exponent >= 16 || exponent < -4) {
    const size = String(Math.abs(exponent)).padStart(2, '0');
    return `${sign}${digits}e${exponent < 0 ? '-' : '+'}${size}`;
  }
  const all = digits.replace('.', '');
  if (exponent < 0) {
    return `${sign}0.${'0'.repeat(-exponent - 1)}${all}`;
  }
  const whole = all.slice(0, exponent + 1).padEnd(exponent + 1, '0');
  return `${sign}${whole}.${all.slice(exponent + 1) || '0'}`;
}
