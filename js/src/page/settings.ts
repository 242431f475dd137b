/** The user's settings of this page (`settings/page.json`). */

import { Token } from '@lumino/coreutils';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

/** The settings and their defaults, which apply until the user's settings are read. */
export const DEFAULTS = {
  codeButtons: true,
  prose: true,
  mentions: true,
  errorButton: true
};

export type SettingName = keyof typeof DEFAULTS;

export interface IPageSettings {
  /** Whether a feature is on. */
  isOn(name: SettingName): boolean;
  readonly changed: ISignal<IPageSettings, void>;
}

export const IPageSettings = new Token<IPageSettings>(
  'jp-nb:IPageSettings',
  "The user's settings of the page part of jp_nb."
);

/** What is read of the settings of JupyterLab. */
export interface ISource {
  readonly composite: Readonly<Record<string, unknown>>;
  readonly changed: ISignal<unknown, void>;
}

export class PageSettings implements IPageSettings {
  readonly changed = new Signal<this, void>(this);

  isOn(name: SettingName): boolean {
    const value = this.source?.composite[name];
    return typeof value === 'boolean' ? value : DEFAULTS[name];
  }

  /** Follow the settings that JupyterLab has read. */
  follow(source: ISource): void {
    this.source = source;
    source.changed.connect(() => this.changed.emit());
    this.changed.emit();
  }

  private source: ISource | undefined;
}
