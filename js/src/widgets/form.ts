/**
 * The part of a form that runs in the page.
 *
 * It reports that the form is visible, sends keys and clicks together with the state of the
 * controls, and manages the focus. `FormBridge` in `jp_nb/notebook/prompt/form_bridge.py` describes
 * the messages.
 */

import type { IView } from './anymodel';
import { FormDrawing } from './formdrawing';
import { FormFocus } from './formfocus';
import { FormInput } from './forminput';
import { FormLabels } from './formlabels';
import { FormMessages } from './formmessages';
import type { IFormModel, IFormState, IMessage, IShown } from './formmodel';
import { KeyGuard } from './keys';
import { FormNotifications } from './notifications';
import { ScrollBoxes } from './scrollboxes';

/** The view of one form. */
class FormView {
  constructor(
    private readonly model: IFormModel,
    el: HTMLElement
  ) {
    const keys = new KeyGuard();
    this.keys = keys;
    this.drawing = new FormDrawing(model, el, {
      onShown: (shown, isFirst) => this.onShown(shown, isFirst),
      onLate: step => this.messages.report(step)
    });
    this.messages = new FormMessages(model, el, this.drawing);
    this.labels = new FormLabels(() => this.messages.forgetSent());
    this.focus = new FormFocus(model, this.drawing, keys);
    this.input = new FormInput(model, this.drawing, this.messages, this.focus, keys);
    this.notifications = new FormNotifications(model, el, this.drawing);

    el.classList.add('jp-nb-beacon');
    model.on('msg:custom', this.onMessage);
    this.drawing.start();
    if (model.get('notify')) {
      this.notifications.announceInTitle();
    }
  }

  dispose(): void {
    const { root } = this.drawing;
    this.drawing.dispose();
    this.messages.dispose();
    if (root) {
      this.focus.leaveOnceClosed(root, this.messages.actsAt);
    }
    this.model.off('msg:custom', this.onMessage);
    this.labels.dispose();
    this.scrollBoxes.dispose();
    this.notifications.dispose();
    this.focus.dispose();
    this.input.dispose();
  }

  /** Begin a step that the page has drawn. */
  private onShown({ root, step }: IShown, isFirst: boolean): void {
    this.keys.reset();
    this.messages.reset();
    this.labels.label(root);
    this.scrollBoxes.follow(root);
    if (isFirst) {
      root.tabIndex = -1;
      this.messages.addNotice(root);
      this.input.start(root);
      this.focus.start(root);
    } else {
      this.focus.focusNext(root);
    }
    this.messages.tellCells(this.model.get('cells') ?? []);
    this.messages.report(step);
  }

  private readonly onMessage = (message: IMessage): void => {
    switch (message.type) {
      case 'announce':
        this.notifications.announce(message);
        break;
      case 'heard':
        this.messages.forgetSent();
        break;
      case 'focus':
        this.focus.focusField(message.field ?? 0);
        break;
    }
  };

  private readonly keys: KeyGuard;
  private readonly drawing: FormDrawing;
  private readonly messages: FormMessages;
  private readonly labels: FormLabels;
  private readonly scrollBoxes = new ScrollBoxes();
  private readonly focus: FormFocus;
  private readonly input: FormInput;
  private readonly notifications: FormNotifications;
}

function render({ model, el }: IView<IFormState>): () => void {
  const view = new FormView(model as IFormModel, el);
  return () => view.dispose();
}

export default { render };
