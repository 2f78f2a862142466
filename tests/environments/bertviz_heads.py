"""Print the data of BertViz's head view of an .npz file with tokens and attention, as JSON."""

import re
import sys

import numpy as np
import torch
from bertviz import head_view

with np.load(sys.argv[1], allow_pickle=False) as file:
    tokens = file["tokens"].tolist()
    attention = [file[name] for name in file.files if name != "tokens"]

page = head_view([torch.from_numpy(layer) for layer in attention], tokens, html_action="return")
sys.stdout.write(re.search(r"const params = (\{.*\});", page.data)[1])
