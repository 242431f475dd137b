/** Additions to the outputs that JupyterLab, or another extension, renders. */

import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { Message } from '@lumino/messaging';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

/** A type of outputs. */
export interface IRenderedType {
  mimeType: string;
  /** The type whose renderer shows it, and its rank, if no renderer is registered for it. */
  otherwise?: { mimeType: string; rank: number };
}

/**
 * Call `onView` with each view of outputs of a type.
 *
 * The renderer that is registered stays the renderer, such as one of another extension. Views of
 * a renderer that is registered later are not passed on.
 */
export function addToRenderer(
  rendermime: IRenderMimeRegistry,
  { mimeType, otherwise }: IRenderedType,
  onView: (view: IRenderMime.IRenderer) => void
): void {
  const isKnown = rendermime.getFactory(mimeType) !== undefined;
  const shownAs = isKnown || !otherwise ? mimeType : otherwise.mimeType;
  const renderer = rendermime.getFactory(shownAs);
  if (!renderer) {
    return;
  }

  const rank = isKnown ? rendermime.getRank(mimeType) : otherwise?.rank;
  const factory: IRenderMime.IRendererFactory = {
    safe: renderer.safe,
    mimeTypes: [mimeType],
    createRenderer: options => {
      const view = renderer.createRenderer({ ...options, mimeType: shownAs });
      onView(view);
      return view;
    }
  };
  rendermime.addFactory(factory, rank);
}

export interface IRendererHandler {
  /** The view begins to render `model`. */
  onModel?: (model: IRenderMime.IMimeModel) => void;
  /** The view has rendered its model, or is in another place of the page. */
  onRendered: () => void;
}

/** Follow what a view renders. */
export function followRenderer(view: IRenderMime.IRenderer, handler: IRendererHandler): void {
  let isRendered = false;
  const look = () => {
    if (isRendered && !view.isDisposed) {
      handler.onRendered();
    }
  };

  const render = view.renderModel.bind(view);
  view.renderModel = async model => {
    handler.onModel?.(model);
    await render(model);
    isRendered = true;
    look();
  };

  // The cell is known now, if the view has rendered its model before.
  const onMessage = (_: unknown, message: Message) => {
    if (message.type === Widget.Msg.AfterAttach.type) {
      look();
    }
    return true;
  };
  MessageLoop.installMessageHook(view, onMessage);
}
