/** The mark in the title of a page with an open form, and the notifications of the browser. */

import { shareInPage } from './anymodel';
import type { IFormElements, IFormModel, IMessage } from './formmodel';
import { callIfUnseen } from './visibility';

const MARK = '● ';
const WAITS = 'A notebook is waiting for your answer';

const waiting = shareInPage('jp_nb.waiting', () => new Set<Element>());

function markTitle(): void {
  const unmarked = getUnmarkedTitle();
  const isAlive = [...waiting].some(el => !el.closest('.jupyter-widgets-disconnected'));
  const title = isAlive ? MARK + unmarked : unmarked;
  if (title !== document.title) {
    document.title = title;
  }
}

function getUnmarkedTitle(): string {
  return document.title.startsWith(MARK) ? document.title.slice(MARK.length) : document.title;
}

/** Tells a user who looks elsewhere that a form is open. */
export class FormNotifications {
  constructor(
    private readonly model: IFormModel,
    private readonly el: HTMLElement,
    private readonly elements: IFormElements
  ) {}

  dispose(): void {
    this.isDisposed = true;
    this.model.off('comm_live_update', this.markTitleSoon);
    this.titleWatcher?.disconnect();
    this.notice?.close();
    waiting.delete(this.el);
    markTitle();
  }

  announceInTitle(): void {
    waiting.add(this.el);
    this.model.on('comm_live_update', this.markTitleSoon); // the kernel is gone
    markTitle();
    const title = document.querySelector('title');
    if (title) {
      this.titleWatcher = new MutationObserver(markTitle); // the title follows the active tab
      this.titleWatcher.observe(title, { childList: true });
    }
  }

  private readonly markTitleSoon = (): void => {
    setTimeout(markTitle);
  };

  announce({ header, tag }: IMessage): void {
    if (globalThis.Notification?.permission !== 'granted') {
      return;
    }

    callIfUnseen(this.elements.root, () => {
      if (this.isDisposed) {
        return;
      }

      const body = [header, getUnmarkedTitle()].filter(Boolean).join(' · ');
      let notice: Notification;
      try {
        // The tag gives one notification for all pages that show the form.
        notice = new Notification(WAITS, { body, tag });
      } catch {
        return; // some browsers allow notifications only from service workers
      }

      this.notice = notice;
      notice.onclick = () => {
        window.focus();
        this.elements.root?.scrollIntoView({ block: 'nearest' });
        notice.close();
      };
    });
  }

  private titleWatcher: MutationObserver | null = null;
  private notice: Notification | null = null;
  private isDisposed = false;
}
