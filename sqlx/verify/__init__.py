"""VERIFY BATCH = STREAM: does a stream give what the bounded query gives, in the order in which its rows arrived?

The recorded rows are read once, and replayed record by record in that order and in others that its grace allows. What
differs is shown with its cause, which is found by replaying the rows in better orders. Why so:
docs/design/20261125_verify.md.
"""
