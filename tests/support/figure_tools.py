"""Cells that define a tool whose result is a figure."""

TOOL = """
import io
import jp_nb as jp
import matplotlib.pyplot as plt

@jp.tool
def plot(power: int) -> jp.Outcome:
    '''Draw a curve.

    Args:
        power: Of x.
    '''
    fig, axes = plt.subplots(figsize=(4, 3))
    axes.plot([x**power for x in range(20)])
    file = io.BytesIO()
    fig.savefig(file, format="png", metadata={"Software": None})
    CLOSE
    image = jp.Image("image/png", file.getvalue(), f"power {power}")
    return jp.Success(f"x**{power}", images=(image,))
"""
CLOSED = TOOL.replace("CLOSE", "plt.close(fig)")
OPEN = TOOL.replace("CLOSE", "")
