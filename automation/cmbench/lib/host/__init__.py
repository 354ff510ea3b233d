"""What machine this is: the one home of facts about the host.

``system``: the operating system, almost free to ask. ``machine``: processors, memory, disks, and
how much of them may be used. ``packages``: how programs are installed here. ``arm``: names of
Arm processors. NVIDIA's GPUs are read by ``lib.nvidia``.
"""

__all__ = ["machine", "packages", "system"]
