/** The rules by which a form accepts keys, so that none answers that was meant for another place. */

/** Keys that choose, answer, or move among answers. */
const CHOOSING = ['Enter', ' ', 'Escape', 'ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight'];

const STEPS: Readonly<Record<string, number>> = {
  ArrowRight: 1,
  ArrowDown: 1,
  ArrowLeft: -1,
  ArrowUp: -1
};

/** Accept only keys that went down while the user could see the form. */
export class KeyGuard {
  private pressed = new Set<string>();
  private settled = -Infinity;

  /** Refuse keys until `time`, because they were meant for the previous focus. */
  settle(time: number): void {
    this.settled = time;
  }

  /** Forget the keys that are down, because another step is shown. */
  reset(): void {
    this.pressed.clear();
  }

  /** Return true if the user pressed the key for this form. `isText` is true for a space in a text. */
  isOnPurpose(key: string, { repeat, isText, now }: IPress): boolean {
    if (!CHOOSING.includes(key) || (key === ' ' && isText)) {
      return true;
    }

    if (repeat ? !this.pressed.has(key) : now < this.settled) {
      return false;
    }

    this.pressed.add(key);
    return true;
  }

  /** Return false for the release of a key that went down elsewhere. */
  release(key: string): boolean {
    return this.pressed.delete(key);
  }
}

export interface IPress {
  repeat: boolean;
  isText: boolean;
  now: number;
}

/** Return the direction in which a key moves among buttons; 0 for other keys. */
export function findStep(key: string): number {
  return STEPS[key] ?? 0;
}
