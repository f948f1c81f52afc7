"""Calls of the clients, toolkits and libraries that agents use: what acts is seen, reads are not."""

# ruff: noqa: E501 - rows, one a line

from __future__ import annotations

import pytest

from ratchet.wire import look
from tests.wire.look_alike import LONG, LookAlike

LISTED = (
    # kind, what a function imports, what it calls
    ("file write", "from git import Repo", "Repo.clone_from('u', 'a', depth=1)"),
    ("file write", "", "open('a', 'a' if self else 'w')"),
    (
        "file write",
        "import yt_dlp",
        "with yt_dlp.YoutubeDL({}) as loader:\n        loader.download(['u'])",
    ),
    ("file write", "from pytube import YouTube", "YouTube('u').streams.first().download('a')"),
    ("file write", "import ffmpeg", "ffmpeg.run(ffmpeg.output(self, 'a.mp4'))"),
    ("file write", "from pydub import AudioSegment", "AudioSegment.empty().export('a.mp3')"),
    ("file write", "from pyvis.network import Network", "Network().save_graph('a.html')"),
    ("file write", "from whisper.utils import get_writer", "get_writer('srt', 'a')(self, 'b')"),
    (
        "file write",
        "from pathlib import Path",
        "Path('a').with_suffix('.b').rename('c')",
    ),
    ("file write", "", "self.document.asave_all_images('a')"),
    ("database write", "import cognee", "cognee.add('a')"),
    (
        "post",
        "from evolutionapi.client import EvolutionClient",
        "EvolutionClient('u').messages.send_text('a', 'b', 'c')",
    ),
    ("file write", "import faiss", "faiss.write_index(index, 'a')"),
    ("desktop", "from browser_use import Agent", "agent = Agent(task='a'); agent.run()"),
    (
        "desktop",
        "from browser_use import Controller",
        "Controller().registry.execute_action('a', {})",
    ),
    (
        "desktop",
        "from playwright.sync_api import Playwright",
        "found: Playwright = self; getattr(found, self.kind).launch()",
    ),
    (
        "post",
        "import urllib.request",
        "request = urllib.request.Request('u', method='POST'); urllib.request.urlopen(request)",
    ),
    (
        "post",
        "def _request(method, path):\n    return method",
        "_request('DELETE', '/a')",
    ),
    ("mail", "import yagmail", "yagmail.SMTP('a').send('b', 'c', 'd')"),
    ("mail", "import aiosmtplib", "aiosmtplib.send(message)"),
    ("mail", "from sendgrid import SendGridAPIClient", "SendGridAPIClient('k').send(mail)"),
    ("mail", "from O365 import Account", "Account(()).new_message().send()"),
    ("mail", "import boto3", "boto3.client('ses').send_templated_email(Source='a')"),
    ("mail", "", "service.users().messages().batchDelete(userId='me', body={}).execute()"),
    ("mail", "import imaplib", "imaplib.IMAP4_SSL('h').append('Drafts', '', 0, text)"),
    ("post", "from slack_sdk import WebClient", "WebClient('t').reactions_add(name='eyes')"),
    ("post", "import discord", "discord.Client().get_channel(1).send('a')"),
    ("post", "import praw", "praw.Reddit('a').subreddit('b').submit('c')"),
    ("post", "from github import Github", "Github('k').get_repo('a').create_file('b', 'c', 'd')"),
    ("post", "import gitlab", "gitlab.Gitlab('u').projects.get(1).issues.create({'title': 'a'})"),
    ("post", "from jira import JIRA", "JIRA('u').transition_issue(issue, '31')"),
    ("post", "from notion_client import Client", "Client(auth='k').pages.create(parent={})"),
    ("post", "from pyairtable import Api", "Api('k').table('a', 'b').batch_create([])"),
    (
        "post",
        "import hubspot",
        "hubspot.Client.create(access_token='k').crm.contacts.basic_api.update(1)",
    ),
    ("post", "from simple_salesforce import Salesforce", "Salesforce('a').Contact.create({})"),
    ("post", "import gspread", "gspread.service_account().open('a').sheet1.append_row([])"),
    ("post", "", "service.spreadsheets().values().append(spreadsheetId='a', body={}).execute()"),
    ("post", "", "calendar.events().patch(calendarId='a', eventId='b', body={}).execute()"),
    ("post", "import dropbox", "dropbox.Dropbox('k').files_upload(b'a', '/b')"),
    ("post", "from trello import TrelloClient", "TrelloClient('k').get_list('a').add_card('b')"),
    ("post", "import boto3", "boto3.client('sqs').send_message(QueueUrl='a', MessageBody='b')"),
    (
        "post",
        "from google.cloud import pubsub_v1",
        "pubsub_v1.PublisherClient().publish('a', b'b')",
    ),
    (
        "post",
        "from google.cloud import storage",
        "storage.Client().bucket('a').blob('b').upload_from_filename('c')",
    ),
    ("post", "from kafka import KafkaProducer", "KafkaProducer().send('a', b'b')"),
    ("post", "import paho.mqtt.client as mqtt", "mqtt.Client().publish('a', 'b')"),
    ("post", "import urllib.request", "urllib.request.urlopen(url, data=b'a')"),
    ("post", "from kubernetes import client", "client.CoreV1Api().create_namespaced_pod('a', {})"),
    ("post", "from composio import ComposioToolSet", "ComposioToolSet().get_tools()"),
    ("post", "from phi.tools.slack import SlackTools", "SlackTools()"),
    ("post", "from agno.tools.github import GithubTools", "GithubTools()"),
    ("payment", "import ccxt", "ccxt.kraken().create_order('a', 'limit', 'buy', 1)"),
    (
        "payment",
        "from alpaca.trading.client import TradingClient",
        "TradingClient('k').close_position('a')",
    ),
    ("database write", "from sqlalchemy.orm import Session", "Session(engine).delete(row)"),
    ("database write", "", "db.commit()"),
    ("database write", "import sqlite3", "sqlite3.connect('a').commit()"),
    (
        "database write",
        "import sqlite3",
        "sqlite3.connect('a').execute('REPLACE INTO a VALUES (1)')",
    ),
    ("database write", "import redis", "redis.Redis().hset('a', 'b', 'c')"),
    (
        "database write",
        "from pymongo import MongoClient",
        "MongoClient('u').a.b.find_one_and_update({}, {})",
    ),
    (
        "database write",
        "from neo4j import GraphDatabase",
        "GraphDatabase.driver('u').session().run('MATCH (a) SET a.b = 1')",
    ),
    ("database write", "from neo4j import Session", "Session(None).run('CREATE (a:Book)')"),
    ("database write", "import duckdb", "duckdb.sql('CREATE TABLE a (b INT)')"),
    (
        "database write",
        "from qdrant_client import QdrantClient",
        "QdrantClient('u').upload_points('a', [])",
    ),
    ("database write", "import lancedb", "lancedb.connect('a').create_table('b', data=[])"),
    ("database write", "from pymilvus import MilvusClient", "MilvusClient('a').insert('b', [])"),
    ("database write", "", "table.update_item(Key={'a': 1})"),
    ("database write", "", "User.objects.filter(id=1).update(name='a')"),
    (
        "database write",
        "from langchain_community.agent_toolkits import SQLDatabaseToolkit",
        "SQLDatabaseToolkit(db=db, llm=llm)",
    ),
    ("file write", "", "Path('a').open('w')"),
    ("file write", "import aiofiles", "aiofiles.open('a', 'wb')"),
    ("file write", "import zipfile", "zipfile.ZipFile('a.zip', 'w')"),
    ("file write", "import cv2", "cv2.imwrite('a.png', image)"),
    ("file write", "", "figure.write_html('a.html')"),
    ("file write", "from fpdf import FPDF", "FPDF().output('a.pdf')"),
    ("file write", "import git", "git.Repo('.').index.commit('a')"),
    ("file write", "from phi.tools.file import FileTools", "FileTools()"),
    ("delete", "import os", "os.removedirs('a')"),
    ("shell", "import pexpect", "pexpect.spawn('ls')"),
    ("shell", "import os", "os.startfile('a')"),
    ("shell", "import docker", "docker.from_env().containers.get('a').exec_run('ls')"),
    (
        "shell",
        "from claude_agent_sdk import ClaudeAgentOptions",
        "ClaudeAgentOptions(allowed_tools=['Read', 'Bash'])",
    ),
    (
        "exec",
        "from autogen import UserProxyAgent",
        "UserProxyAgent('a', code_execution_config={'work_dir': 'b'})",
    ),
    (
        "exec",
        "from autogen_ext.tools.code_execution import PythonCodeExecutionTool",
        "PythonCodeExecutionTool(executor)",
    ),
    ("exec", "from crewai import Agent", "Agent(role='a', allow_code_execution=True)"),
    ("exec", "from smolagents import CodeAgent", "CodeAgent(tools=[], model=model)"),
    ("exec", "from agno.tools.python import PythonTools", "PythonTools()"),
    (
        "exec",
        "from langchain_experimental.agents import create_pandas_dataframe_agent",
        "create_pandas_dataframe_agent(llm, frame)",
    ),
    ("desktop", "from agents import ComputerTool", "ComputerTool(computer)"),
    ("desktop", "from playwright.sync_api import Page", "page.set_input_files('#a', 'b')"),
)
UNLISTED = (
    # of packages that no table names; a client is what its methods and its own name say
    ("post", "from parcelwire import ParcelClient", "ParcelClient('k').shipments.create(a=1)"),
    ("post", "from parcelwire import Desk", "Desk('k').submit_claim('a')"),
    ("delete", "import parcelwire", "parcelwire.connect('u').delete('a')"),
    ("database write", "from shelfdb import RemoteStore", "RemoteStore('u').ainsert(rows)"),
    ("post", "from parcelwire import Desk", "Desk('k').events.add('a')"),
    (
        "database write",
        "from agno.knowledge.url import UrlKnowledge\ndef kept():\n    return UrlKnowledge(urls=[])",
        "kept().load(upsert=True)",
    ),
    (
        "database write",
        "from llama_index.core import VectorStoreIndex",
        "VectorStoreIndex([]).insert(document)",
    ),
    ("post", "", "OpenAI().vector_stores.files.create('a', file_id='b')"),
    ("post", "from parcelwire import Parcels", "Parcels('k').datastores.create(name='a')"),
    ("post", "from parcelwire import Parcels", "Parcels('k').datastores.ingest('a')"),
    ("post", "", "self.desk_client.create_label('a')"),
    ("post", "", "bot.send_photo('a')"),
    (
        "post",
        "import streamlit as st\nfrom parcelwire import Desk\nst.session_state.desk = Desk('k')",
        "st.session_state.desk.send('a')",
    ),
    (
        "post",
        "from azure.mgmt.compute import ComputeManagementClient",
        "ComputeManagementClient('k').disks.begin_create_or_update('a')",
    ),
    ("post", "from azure.storage.blob import BlobClient", "BlobClient('u').upload_blob(b'a')"),
    ("post", "import boto3", "boto3.client('ec2').run_instances(MinCount=1)"),
    ("file write", "", "model.save_pretrained('a')"),
    ("database write", "", "session.query(Book).filter(Book.id == 1).delete()"),
    # handed on: injected, entered, held by a framework's context, passed to a listener
    (
        "post",
        "from fastapi import Depends\nfrom parcelwire import ParcelClient\n"
        "def desk():\n    made = ParcelClient('k')\n    try:\n        yield made\n    finally:\n        pass\n"
        "def route(desk=Depends(desk)):\n    desk.send_parcel('a')",
        "pass",
    ),
    (
        "post",
        "from contextlib import contextmanager\nfrom typing import Iterator\nfrom parcelwire import Desk\n"
        "@contextmanager\ndef opened() -> Iterator[Desk]:\n    yield wait()",
        "\n    with opened() as desk:\n        desk.send('a')",
    ),
    (
        "post",
        "from dataclasses import dataclass\nfrom pydantic_ai import RunContext\nfrom parcelwire import Desk\n"
        "@dataclass\nclass Held:\n    desk: Desk\n"
        "def tell(context: RunContext[Held]):\n    context.deps.desk.publish('a')",
        "pass",
    ),
    (
        "post",
        "from slack_bolt import App\napp = App()\n@app.message('a')\ndef hear(message, say):\n    say('b')",
        "pass",
    ),
    # queries whose text writes, or is computed: a model may have written it
    (
        "database write",
        "from stores.graphs import Neo4jGraph",
        "Neo4jGraph().structured_query(f'MERGE (a:{kind}) SET a.b = 1')",
    ),
    ("database write", "", "self.graph_store.structured_query(event.cypher)"),
    (
        "database write",
        "from google.cloud import bigquery\ndef ask(code):\n    bigquery.Client().query(code)",
        "ask(answer())",
    ),
    ("database write", "", "context.app.driver.session().run(cypher_query)"),
    (
        "database write",
        "import psycopg\nRECENT = 'WITH old AS (SELECT 1) '",
        "psycopg.connect('u').execute(f'{RECENT} DELETE FROM books')",
    ),
    (
        "post",
        "from gql import Client, gql",
        "Client().execute(gql('mutation { addBook(title: 1) { id } }'))",
    ),
    # tools of a model's API
    ("desktop", "", "ask(tools=[{'type': 'computer_20241022', 'name': 'computer'}])"),
    ("shell", "", "ask(tools=[{'type': 'bash_20250124', 'name': 'bash'}])"),
    ("file write", "", "ask(tools=[{'type': 'text_editor_20250124', 'name': 'edit'}])"),
    ("exec", "", "ask(tools=[{'type': 'code_interpreter', 'container': {'type': 'auto'}}])"),
    ("post", "", "ask(tools=[{'type': 'mcp', 'server_label': 'a', 'server_url': 'u'}])"),
)
PYTHON = (*LISTED, *UNLISTED)
READS = (
    ("from pathlib import Path", "Path('a').stem.replace('b', 'c')"),
    (
        "from google.cloud import storage",
        "storage.Client().bucket('a').blob('b').download_as_text()",
    ),
    (
        "from e2b_code_interpreter import Sandbox",
        "found: Sandbox = self; close = getattr(found, self.kind); close(upsert=True)",
    ),
    ("import gradio as gr", "gr.Button('a').click(fn=print)"),
    ("import gradio as gr", "button = gr.Button('a'); button.click(fn=print)"),
    ("", "open('a', 'rb' if self else 'r')"),
    (
        "import urllib.request",
        "request = urllib.request.Request('u'); urllib.request.urlopen(request)",
    ),
    ("def _request(method, path):\n    return method", "_request('GET', '/a')"),
    # what a function imports, what it calls
    ("from github import Github", "Github('k').get_repo('a').get_issues()"),
    ("import hubspot", "hubspot.Client.create(access_token='k')"),
    ("import boto3", "boto3.client('s3').get_object(Bucket='a')"),
    ("import boto3", "boto3.client('bedrock-runtime').invoke_model(body='a')"),
    (
        "from notion_client import Client",
        "Client(auth='k').search(query='a').get('results').append(1)",
    ),
    ("from slack_sdk import WebClient", "WebClient('t').conversations_history(channel='a')"),
    ("from sqlalchemy import update", "update(User)"),
    ("import discord", "discord.Client().add_listener(on_ready)"),
    ("from sqlalchemy import select", "session.execute(select(User).where(User.id == 1))"),
    ("from sqlalchemy.ext.asyncio import create_async_engine", "create_async_engine('u')"),
    ("import gradio", "gradio.Button('a').click(answer)"),
    ("", "desk.run('Create a list of the books that were returned today')"),
    ("from autogen import UserProxyAgent", "UserProxyAgent('a', code_execution_config=False)"),
    ("", "{}.update({'a': 1})"),
    ("", "seen.add(1)"),
    ("", "Path('a').open('r')"),
    ("", "calendar.events().list(calendarId='a').execute()"),
    (
        "from claude_agent_sdk import ClaudeAgentOptions",
        "ClaudeAgentOptions(allowed_tools=['Read'])",
    ),
    ("from smolagents import ToolCallingAgent", "ToolCallingAgent(tools=[], model=model)"),
    ("from agno.tools.yfinance import YFinanceTools", "YFinanceTools()"),
    # of packages that no table names
    ("from parcelwire import ParcelClient", "ParcelClient('k').shipments.list()"),
    ("from parcelwire import ParcelClient", "ParcelClient('k').create_session()"),
    ("from parcelwire import Label", "Label().add('a', 1)"),
    ("from parcelwire import Calendar", "Calendar().add('a', 1)"),
    ("from parcelwire import Desk", "Desk().parcels.append('a')"),
    ("from parcelwire import Desk", "Desk().ask(model='m', prompt='a')"),
    ("from parcelwire import Parcels", "Parcels('k').threads.create()"),
    ("from parcelwire import Parcels", "Parcels('k').visited_urls.update({'a'})"),
    ("", "self.model_client.send_query('a')"),
    ("", "desk.send_off('a')"),
    ("import numpy", "numpy.array([]).put(1, 2)"),
    ("from rich.progress import Progress", "Progress().update(1)"),
    ("import pandas", "pandas.DataFrame().insert(0, 'a', [])"),
    ("from icalendar import Calendar", "Calendar().add('prodid', 'a')"),
    (
        "from langchain.memory import ConversationBufferMemory",
        "ConversationBufferMemory().add('a')",
    ),
    ("from llama_index.core.memory import Memory_Buffer", "Memory_Buffer().put('a')"),
    (
        "from agents import Agent\nclass Kept(Agent):\n    def __init__(self):\n        self.store = {}\n"
        "    def keep(self):\n        self.store.insert('a')",
        "pass",
    ),
    # queries that read, wherever their text stands
    (
        "import psycopg\nBOOKS = 'SELECT * FROM books'\ndef rows(query):\n    psycopg.connect('u').execute(query)",
        "rows(BOOKS); rows(f'{BOOKS} LIMIT 1')",
    ),
    (
        "from sqlalchemy import select\nfrom sqlalchemy.orm import Session\ndef found(db: Session, name):\n"
        "    statement = select(Book)\n    if name:\n        statement = statement.where(Book.name == name)\n"
        "    return db.execute(statement)",
        "pass",
    ),
    ("from sqlalchemy.orm import Session", "Session(engine).query(Book.id, Book.name).all()"),
    ("import sqlite3", "parts = ['SELECT a', 'FROM b']; cursor.execute(' '.join(parts))"),
    ("from gql import Client, gql", "Client().execute(gql('query { books { id } }'))"),
    ("", "ask(tools=[{'type': 'web_search_20250305'}, {'type': 'file_search'}])"),
)
JAVASCRIPT = (
    ("desktop", "import { mouse } from '@nut-tree-fork/nut-js'", "mouse.drag([])"),
    (
        "post",
        "import { WebClient } from '@slack/web-api'",
        "new WebClient('t').files.sharedPublicURL({})",
    ),
    ("file write", "import { Page } from 'playwright'", "page.screenshot({ path: 'a.png' })"),
    (
        "post",
        "class Desk { async makeRequest(url, options) { return fetch(url, options) } }",
        "new Desk().makeRequest('u', { method: 'POST', body: 'a' })",
    ),
    ("mail", "import { Resend } from 'resend'", "new Resend('k').emails.send({})"),
    ("post", "import { WebClient } from '@slack/web-api'", "new WebClient('t').reactions.add({})"),
    ("post", "import { Octokit } from '@octokit/rest'", "new Octokit({}).rest.pulls.create({})"),
    ("post", "import { LinearClient } from '@linear/sdk'", "new LinearClient({}).createIssue({})"),
    ("post", "import { Client } from '@notionhq/client'", "new Client({}).pages.update({})"),
    ("post", "import Browser from '@browserbasehq/sdk'", "new Browser({}).sessions.create({})"),
    ("post", "import axios from 'axios'", "axios({ method: 'put', url: 'u' })"),
    ("post", "import got from 'got'", "got.post('u')"),
    ("post", "", "const options = { method: 'POST' };\n  fetch('u', options)"),
    ("post", "import { experimental_createMCPClient } from 'ai'", "new MCPClient({})"),
    ("payment", "import { ethers } from 'ethers'", "new ethers.Wallet('k').sendTransaction({})"),
    ("database write", "import { createClient } from 'redis'", "createClient({}).set('a', 'b')"),
    ("database write", "import mongoose from 'mongoose'", "User.findByIdAndUpdate('a', {})"),
    ("database write", "import { kv } from '@vercel/kv'", "kv.set('a', 'b')"),
    ("database write", "import { addDoc } from 'firebase/firestore'", "addDoc(users, {})"),
    ("file write", "import * as fs from 'fs/promises'", "fs.rename('a', 'b')"),
    ("file write", "", "Bun.write('a', 'b')"),
    ("shell", "import { spawn } from 'child_process'", "spawn('ls')"),
    ("exec", "import { Sandbox } from '@e2b/code-interpreter'", "box.runCode('a')"),
    ("exec", "import vm from 'node:vm'", "vm.runInContext('a', context)"),
    ("desktop", "import { Stagehand } from '@browserbasehq/stagehand'", "page.act('a')"),
    ("post", "", "new OpenAI().beta.assistants.create({ name: 'a' })"),
    ("post", "", "new OpenAI().beta.vectorStores.files.del('a', 'b')"),
    ("post", "import { ParcelClient } from 'parcelwire'", "new ParcelClient({}).createContact({})"),
    ("post", "import { send } from '@parcel/queue'", "send('topic', {})"),
    (
        "post",
        "import { App } from '@slack/bolt'; const app = new App({})",
        "app.message('a', async ({ say }) => { await say('b') })",
    ),
    ("post", "", "options.emailProvider.archiveThread('a')"),
    ("post", "", "graph.getClient().api('/me/messages').post({})"),
    ("mail", "", "options.gmail.users.threads.modify({})"),
    ("exec", "", "ask({ tools: [{ type: 'code_interpreter' }] })"),
)
JAVASCRIPT_READS = (
    ("import { Page } from 'playwright'", "page.screenshot({ fullPage: true })"),
    (
        "class Desk { async makeRequest(url, options) { return fetch(url, options) } }",
        "new Desk().makeRequest('u', { method: 'GET' })",
    ),
    ("import { Octokit } from '@octokit/rest'", "new Octokit({}).rest.pulls.list({})"),
    ("import { createClient } from '@supabase/supabase-js'", "createClient('u', 'k')"),
    ("import { Client } from '@notionhq/client'", "new Client({}).databases.query({})"),
    ("", "new Set().add(1)"),
    ("import { createOpenAI } from '@ai-sdk/openai'", "createOpenAI({ apiKey: 'k' })('m')"),
    ("import { useChat } from '@ai-sdk/react'", "useChat().sendMessage({ text: 'a' })"),
    ("import { sql } from 'drizzle-orm'", "sql('INSERT INTO a VALUES (1)')"),
    ("import { create } from 'zustand'", "create({}).set('a')"),
    ("", "fetch('u', { headers: {} })"),
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Kinds of effects that act, by the row's own file; all rows stand in one repository."""
    files = {
        "agent.py": "from openai import OpenAI\nimport rows\n"
        f"OpenAI().chat.completions.create(messages=[{{'role': 'system', 'content': '{LONG}'}}])\n",
        "rows/__init__.py": "",
    }
    given = [*PYTHON, *(("", *one) for one in READS)]
    for number, (_, imported, called) in enumerate(given):
        files[f"rows/p{number}.py"] = (
            f"import openai\n{imported}\ndef go(self=None):\n    {called}\n"
        )
    scripts = [*JAVASCRIPT, *(("", *one) for one in JAVASCRIPT_READS)]
    for number, (_, imported, called) in enumerate(scripts):
        files[f"rows/j{number}.ts"] = (
            f"import OpenAI from 'openai';\n{imported};\nexport async function go() {{\n  {called};\n}}\n"
        )
    found = look(LookAlike("rows", files, "", "", ()).write(tmp_path_factory.mktemp("rows")))
    kinds: dict[str, set[str]] = {}
    for one in found.side_effects:
        if one.acts:
            kinds.setdefault(one.place.path, set()).add(one.kind)
    return kinds


@pytest.mark.parametrize("number", range(len(PYTHON)), ids=lambda n: PYTHON[n][2])
def test_what_acts_in_python_is_seen(seen: dict[str, set[str]], number: int) -> None:
    assert PYTHON[number][0] in seen.get(f"rows/p{number}.py", set())


@pytest.mark.parametrize("number", range(len(READS)), ids=lambda n: READS[n][1])
def test_what_reads_in_python_does_not_act(seen: dict[str, set[str]], number: int) -> None:
    assert f"rows/p{len(PYTHON) + number}.py" not in seen


@pytest.mark.parametrize("number", range(len(JAVASCRIPT)), ids=lambda n: JAVASCRIPT[n][2])
def test_what_acts_in_javascript_is_seen(seen: dict[str, set[str]], number: int) -> None:
    assert JAVASCRIPT[number][0] in seen.get(f"rows/j{number}.ts", set())


@pytest.mark.parametrize(
    "number", range(len(JAVASCRIPT_READS)), ids=lambda n: JAVASCRIPT_READS[n][1]
)
def test_what_reads_in_javascript_does_not_act(seen: dict[str, set[str]], number: int) -> None:
    assert f"rows/j{len(JAVASCRIPT) + number}.ts" not in seen
