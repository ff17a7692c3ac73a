"""The one place that states the version.

>>> import holdfast
>>> holdfast.__version__ == __version__
True
"""

__version__ = "0.1.0"
