/** The place of a form in the view of a notebook. */

/** Pixels between the form and the edge of the view. */
const GAP_PX = 8;

export interface IEdges {
  top: number;
  bottom: number;
}

/**
 * Return the pixels to scroll, so that the form is visible with as much of its cell above as fits.
 *
 * The user needs the request, the model's text and the call for the decision.
 */
export function computeScroll(view: IEdges, form: IEdges, cellTop: number): number {
  const toTop = (edge: number) => edge - view.top - GAP_PX;
  const toBottom = form.bottom - view.bottom + GAP_PX;
  const room = view.bottom - view.top - 2 * GAP_PX;

  if (form.bottom - cellTop <= room) {
    return toTop(cellTop) < 0 ? toTop(cellTop) : Math.max(toBottom, 0);
  }

  const isWhole = form.bottom - form.top <= room;
  return isWhole ? toBottom : toTop(form.top);
}
