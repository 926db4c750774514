"""Crash points: every file-system operation of a write fails, or the process dies at it, and what readers then see.

local_faults    faults at the operations of this process, SIGKILL included
hadoop_faults   faults at the operations of Spark, by a Hadoop file system of our own (FaultyFiles.java)
stream_shapes   writes of streams without Spark
script_shapes   scripts and streams that Spark writes
points          runs every point and checks what must hold
"""
