"""The zoo's own sequence models: recurrent networks, attention over time, sound, a decoder step with its cache."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from zoo_models import Built, Entry


class Tagger(nn.Module):
    """Embed words, apply a bidirectional LSTM of two layers, and give each position a tag."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 12, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(24, 7)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.tags(self.lstm(self.words(words))[0]).log_softmax(-1)


class Translator(nn.Module):
    """Encode with a GRU, then write five words greedily with a GRU cell that attends to the encoded sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 16)
        self.reader, self.writer = nn.GRU(16, 16, batch_first=True), nn.GRUCell(32, 16)
        self.query, self.out = nn.Linear(16, 16), nn.Linear(32, 40)

    def forward(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        read, last = self.reader(self.words(words))
        state, word = last[0], torch.zeros_like(words[:, 0])
        written, scores = [], []
        for _ in range(5):
            weights = torch.bmm(read, self.query(state).unsqueeze(2)).softmax(1)
            context = (weights * read).sum(1)
            state = self.writer(torch.cat([self.words(word), context], 1), state)
            score = self.out(torch.cat([state, context], 1))
            word = score.argmax(1)
            written.append(word)
            scores.append(score)
        return torch.stack(written, 1), torch.stack(scores, 1)


class Tacotron(nn.Module):
    """Convert text to frames of a spectrogram: convolutions, bidirectional LSTM, location-sensitive attention,
    postnet.
    """

    def __init__(self, frames: int = 6, bands: int = 10) -> None:
        super().__init__()
        self.frames, self.bands = frames, bands
        self.letters = nn.Embedding(30, 16)
        self.convolutions = nn.Sequential(nn.Conv1d(16, 16, 5, padding=2), nn.BatchNorm1d(16), nn.ReLU())
        self.encoder = nn.LSTM(16, 8, batch_first=True, bidirectional=True)
        self.prenet = nn.Sequential(nn.Linear(bands, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU())
        self.cell = nn.LSTMCell(12 + 16, 20)
        self.query, self.memory = nn.Linear(20, 14), nn.Linear(16, 14, bias=False)
        self.location = nn.Conv1d(1, 14, 7, padding=3)
        self.energy = nn.Linear(14, 1)
        self.frame = nn.Linear(20 + 16, bands)
        self.postnet = nn.Sequential(nn.Conv1d(bands, 16, 5, padding=2), nn.Tanh(), nn.Conv1d(16, bands, 5, padding=2))

    def forward(self, text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.convolutions(self.letters(text).transpose(1, 2)).transpose(1, 2)
        memory = self.encoder(x)[0]
        keys = self.memory(memory)
        n = text.shape[0]
        frame, context = memory.new_zeros(n, self.bands), memory.new_zeros(n, 16)
        hidden = cell = memory.new_zeros(n, 20)
        told = torch.zeros_like(memory[:, :, 0])
        frames, alignments = [], []
        for _ in range(self.frames):
            hidden, cell = self.cell(torch.cat([self.prenet(frame), context], 1), (hidden, cell))
            where = self.location(told.unsqueeze(1)).transpose(1, 2)
            energy = self.energy(torch.tanh(self.query(hidden).unsqueeze(1) + keys + where)).squeeze(2)
            weights = energy.softmax(1)
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            told = told + weights
            frame = self.frame(torch.cat([hidden, context], 1))
            frames.append(frame)
            alignments.append(weights)
        mel = torch.stack(frames, 2)
        return mel + self.postnet(mel), torch.stack(alignments, 1)


class ConvTasNet(nn.Module):
    """Separate two voices: learned filters, dilated depthwise blocks with global layer norm, masks, overlap-add."""

    def __init__(self, filters: int = 24, inner: int = 32, blocks: int = 4) -> None:
        super().__init__()
        self.filters = filters
        self.encoder = nn.Conv1d(1, filters, 16, stride=8, bias=False)
        self.norm = nn.GroupNorm(1, filters)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(filters, inner, 1), nn.PReLU(), nn.GroupNorm(1, inner),
                nn.Conv1d(inner, inner, 3, padding=2**i, dilation=2**i, groups=inner), nn.PReLU(),
                nn.GroupNorm(1, inner), nn.Conv1d(inner, filters, 1),
            )
            for i in range(blocks)
        )  # fmt: skip
        self.masks = nn.Conv1d(filters, 2 * filters, 1)
        self.decoder = nn.ConvTranspose1d(filters, 1, 16, stride=8, bias=False)

    def forward(self, mixture: torch.Tensor) -> torch.Tensor:
        code = self.encoder(mixture.unsqueeze(1)).relu()
        x = self.norm(code)
        for block in self.blocks:
            x = x + block(x)
        masks = self.masks(x).sigmoid().unflatten(1, (2, self.filters))
        voices = (masks * code.unsqueeze(1)).flatten(0, 1)
        return self.decoder(voices).unflatten(0, (mixture.shape[0], 2)).squeeze(2)


class Spectral(nn.Module):
    """Recognize speech on a log spectrogram: STFT, convolutions over time and frequency, GRU, letters."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.convolution = nn.Conv2d(1, 4, (3, 5), stride=(2, 2), padding=(1, 2))
        self.norm = nn.BatchNorm2d(4)
        self.gru = nn.GRU(4 * 17, 16, batch_first=True, bidirectional=True)
        self.letters = nn.Linear(32, 20)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(sound, 64, 32, window=self.window, return_complex=True).abs()
        x = (spectrum**2 + 1e-6).log().unsqueeze(1)
        x = F.hardtanh(self.norm(self.convolution(x)), -20, 20)
        return self.letters(self.gru(x.permute(0, 3, 1, 2).flatten(2))[0]).log_softmax(-1)


class CachedDecoder(nn.Module):
    """Compute one step of a decoder whose keys and values are stored in buffers, at the given position."""

    def __init__(self, room: int = 12) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(40, 16), nn.Embedding(room, 16)
        self.projected, self.out = nn.Linear(16, 48), nn.Linear(16, 40)
        self.register_buffer("keys", torch.randn(1, 4, room, 4))
        self.register_buffer("values", torch.randn(1, 4, room, 4))
        self.register_buffer("order", torch.arange(room))

    def forward(self, word: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        x = self.words(word) + self.places(place)
        query, key, value = self.projected(x).view(1, 1, 3, 4, 4).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, place, key)
        self.values.index_copy_(2, place, value)
        seen = (self.order <= place)[None, None, None]
        x = x + F.scaled_dot_product_attention(query, self.keys, self.values, seen).transpose(1, 2).reshape(1, 1, 16)
        return self.out(x)


class Transformer(nn.Module):
    """Apply PyTorch's own encoder and decoder, with a causal mask and a padding mask."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 16)
        self.both = nn.Transformer(16, 4, 2, 2, 32, batch_first=True)
        self.out = nn.Linear(16, 40)

    def forward(self, source: torch.Tensor, target: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        # The first word is never padding, because a row without any word has no result.
        padding = torch.cat([torch.zeros_like(padding[:, :1]), padding[:, 1:]], 1)
        x = self.both(self.words(source), self.words(target), tgt_mask=causal, src_key_padding_mask=padding,
                      memory_key_padding_mask=padding)  # fmt: skip
        return self.out(x)


def _built(kind: Callable[[], nn.Module], *inputs: str) -> Built:
    torch.manual_seed(0)
    return Built(kind().eval(), list(inputs))


ENTRIES = [
    Entry("lstm-tagger", "recurrent", lambda: _built(Tagger, "words:int64[batch,length]")),
    Entry("seq2seq-gru", "recurrent", lambda: _built(Translator, "words:int64[batch,length]")),
    Entry("tacotron", "recurrent", lambda: _built(Tacotron, "text:int64[batch,length]")),
    Entry("conv-tasnet", "audio", lambda: _built(ConvTasNet, "mixture:float32[batch,400]")),
    Entry("spectrogram-gru", "audio", lambda: _built(Spectral, "sound:float32[batch,800]")),
    Entry("kv-cache-step", "decoder step", lambda: _built(CachedDecoder, "word:int64[1,1]", "place:int64[1]")),
    Entry("transformer", "attention", lambda: _built(
        Transformer, "source:int64[batch,length]", "target:int64[batch,written]", "padding:bool[batch,length]")),
]  # fmt: skip
